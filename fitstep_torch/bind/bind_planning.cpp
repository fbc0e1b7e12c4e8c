#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/planner/least.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/policies.h"
#include "fitstep/planner/search.h"
#include "fitstep/run/host_copies.h"
#include "fitstep/run/lane_copies.h"
#include "fitstep/run/measure_disk.h"
#include "fitstep_torch/bind/bindings.h"
#include "fitstep_torch/lower.h"

namespace fitstep::torch_side {
namespace {

Machine local_machine(int32_t threads) {
  return {.name = "local",
          .threads = threads,
          .tiers = {{.name = "device"}},
          .links = {},
          .codecs = {}};
}

Link link_from(const py::object& text, TierId upper) {
  Link link = unwrap(parse_machine(text.cast<std::string>())).links.front();
  link.upper = upper;
  return link;
}

}  // namespace

Machine machine_from(int32_t threads, const py::dict& options) {
  Machine machine = local_machine(threads);
  const auto host_bytes = options["host_bytes"].cast<int64_t>();
  const auto disk_bytes = options["disk_bytes"].cast<int64_t>();
  if (host_bytes == 0 && disk_bytes == 0) return machine;
  machine.tiers.push_back(
      {.name = "host", .capacity_bytes = host_bytes, .is_closed = host_bytes == 0});
  machine.links = {link_from(options["host_link"], kDeviceTier)};
  const auto codecs = options["codecs"].cast<std::string>();
  if (!codecs.empty()) machine.codecs = unwrap(parse_machine(codecs)).codecs;
  if (disk_bytes == 0) return machine;
  machine.tiers.push_back({.name = "disk", .capacity_bytes = disk_bytes});
  machine.links.push_back(link_from(options["disk_link"], kHostTier));
  return machine;
}

std::string codecs_text(int32_t threads, std::vector<Codec> codecs) {
  Machine machine = local_machine(threads);
  machine.codecs = std::move(codecs);
  return print_machine(machine);
}

std::string link_text(int32_t threads, const Link& link) {
  Machine machine = local_machine(threads);
  machine.tiers.push_back({.name = "below"});
  machine.links = {link};
  return print_machine(machine);
}

namespace {

std::string measure_drive(int32_t threads, const py::object& file, int64_t file_bytes,
                          int64_t block_bytes) {
  const DiskOptions options{.file = disk_options(file),
                            .file_bytes = file_bytes,
                            .block_bytes = block_bytes,
                            .threads = threads};
  const auto measure = [&] {
    const py::gil_scoped_release release;
    return measure_disk(options);
  };
  const DiskMeasure disk = unwrap(measure());
  return link_text(threads, Link{.upper = kDeviceTier,
                                 .evict = disk.evict,
                                 .prefetch = disk.prefetch,
                                 .compute_slowdown = disk.compute_slowdown});
}

// What the lanes of a plan copy, and what the tiers below hold for it.
py::dict offloaded(const Plan& plan) {
  py::dict made;
  made["evicted_bytes"] = copied_bytes(plan, Lane::Evict);
  made["prefetched_bytes"] = copied_bytes(plan, Lane::Prefetch);
  made["host_bytes"] = tier_bytes(plan, kHostTier);
  made["disk_written_bytes"] = copied_bytes(plan, Lane::DiskWrite);
  made["disk_read_bytes"] = copied_bytes(plan, Lane::DiskRead);
  made["disk_bytes"] = tier_bytes(plan, kDiskTier);
  return made;
}

py::dict certificate(const Plan& plan) {
  const Certificate& of = plan.certificate;
  py::dict made;
  made["floor_bytes"] = of.floor_bytes;
  made["peak_bytes"] = of.peak_bytes;
  made["height_bytes"] = of.height_bytes;
  made["capacity_bytes"] = of.capacity_bytes;
  made["predicted_s"] = static_cast<double>(of.predicted_ps) / kPicosecondsPerSecond;
  made["bound_s"] = static_cast<double>(of.bound_ps) / kPicosecondsPerSecond;
  made["bound"] = of.bound;
  made["moves"] = of.moves;
  return made;
}

py::list culprits(const std::vector<Culprit>& all) {
  py::list made;
  for (const Culprit& one : all) made.append(py::make_tuple(one.op.value(), one.bytes));
  return made;
}

// Counts of instances: (first runs, recomputes).
// Ops that run once, and runs beyond the first of the others.
py::tuple run_counts(const Plan& plan, const StepProgram& step) {
  std::vector<int64_t> runs(step.program.ops.size(), 0);
  for (const Action& action : plan.lane(Lane::Compute)) {
    if (action.kind == Action::Kind::Run) ++runs[action.run.op.index()];
  }
  int64_t again = 0;
  for (const int64_t count : runs) again += std::max<int64_t>(count - 1, 0);
  return py::make_tuple(std::ranges::count(runs, 1), again);
}

// (name of the value, operator that packs it, its bytes, those of what it is held as) of each that
// the plan packs.
py::list packed(const Plan& plan, const StepProgram& step) {
  py::list made;
  std::vector<bool> seen(step.program.ops.size(), false);
  for (const Action& action : plan.lane(Lane::Compute)) {
    if (action.kind != Action::Kind::Run) continue;
    const size_t op = action.run.op.index();
    if (!step.program.ops[op].is_optional || seen[op]) continue;
    seen[op] = true;
    const Op& packer = step.program.ops[op];
    const Form& form = packer.forms.front();
    const Storage& value = step.program.storages[form.reads.front().storage.index()];
    const Storage& code = step.program.storages[form.writes.front().storage.index()];
    made.append(py::make_tuple(value.name, packer.name, value.size_bytes, code.size_bytes));
  }
  return made;
}

PlanRequest request_from(const StepProgram& step, const py::dict& options) {
  PlanRequest request;
  using Homes = std::map<std::string, std::pair<bool, int64_t>>;  // (is below, offset in bytes)
  for (const auto& [name, home] : options["homes"].cast<Homes>()) {
    for (size_t i = 0; i < step.program.storages.size(); ++i) {
      const Storage& storage = step.program.storages[i];
      if (storage.name == name && storage.is_persistent && !is_external(storage.kind))
        request.homes.push_back({.storage = StorageId(i),
                                 .offset_bytes = home.second,
                                 .tier = home.first ? kHostTier : kDeviceTier});
    }
  }
  request.bottom_bytes = options["bottom_bytes"].cast<int64_t>();
  request.host_bottom_bytes = options["host_bottom_bytes"].cast<int64_t>();
  request.capacity_bytes = options["capacity_bytes"].cast<int64_t>();
  request.seed = options["seed"].cast<uint64_t>();
  request.effort = options["effort"].cast<int32_t>();
  request.policy = options["policy"].cast<std::string>();
  request.codes_on_disk = options["codes_on_disk"].cast<bool>();
  request.codes_on_host = options["codes_on_host"].cast<bool>();
  const py::object progress = options["progress"];
  if (!progress.is_none()) {
    // Shared, as the planner copies requests where the interpreter's lock is not held.
    request.progress = [show = std::make_shared<py::object>(progress)](double share) {
      const py::gil_scoped_acquire acquire;
      (*show)(share);
    };
  }
  return request;
}

// Names of the storages whose homes the plan has on the host tier.
std::vector<std::string> homes_below(const Plan& plan, const StepProgram& step) {
  std::vector<std::string> names;
  for (const Residency& it : plan.residencies) {
    if (!it.is_home || it.tier != kHostTier) continue;
    if (it.storage.index() >= step.program.storages.size()) continue;  // Of another program.
    names.push_back(step.program.storages[it.storage.index()].name);
  }
  return names;
}

py::object outcome_to_python(Outcome outcome) {
  if (auto* fits = std::get_if<Fits>(&outcome))
    return py::make_tuple("fits", std::make_shared<Plan>(std::move(fits->plan)));
  if (const auto* small = std::get_if<TooSmall>(&outcome))
    return py::make_tuple("too small", small->floor_bytes, culprits(small->culprits));
  const auto& gave_up = std::get<GaveUp>(outcome);
  return py::make_tuple("gave up", gave_up.least_found_bytes, gave_up.floor_bytes,
                        culprits(gave_up.culprits));
}

// options["looks_for"]: "plan" for the best; "any" for the first that is found; "least" for the
// least capacity from that of the options and `least_bytes` on, as the answer of a planner that has
// given up.
py::object plan_step(const StepProgram& step, int32_t threads, const py::dict& options) {
  PlanRequest request = request_from(step, options);
  request.threads = threads;
  request.says_least = options["says_least"].cast<bool>() || !can_find_least(request);
  const Machine machine = machine_from(threads, options);
  const auto looks_for = options["looks_for"].cast<std::string>();
  const auto least_bytes = options["least_bytes"].cast<int64_t>();
  const auto make = [&]() -> Outcome {
    const py::gil_scoped_release release;
    if (looks_for != "least") {
      if (looks_for == "any") request.time_limit_s = kFirstPlan;
      return make_plan(step.program, machine, request);
    }
    const int64_t first_bytes = std::max(request.capacity_bytes, least_bytes);
    request.capacity_bytes = 0;
    Outcome none = make_plan(step.program, machine, request);
    auto* small = std::get_if<TooSmall>(&none);
    if (small == nullptr) return none;
    request.capacity_bytes = first_bytes - 1;
    return find_least(step.program, machine, request,
                      {.floor_bytes = small->floor_bytes, .culprits = std::move(small->culprits)},
                      first_bytes);
  };
  return outcome_to_python(make());
}

// The plan with the codes that pay by what the program knows of them; None where they are the same.
std::shared_ptr<Plan> with_codes(const StepProgram& step, const Plan& plan, int32_t threads,
                                 const py::dict& options) {
  const PlanRequest request = request_from(step, options);
  const Machine machine = machine_from(threads, options);
  Plan coded = plan;
  {
    const py::gil_scoped_release release;
    put_codes(step.program, machine, request, coded);
  }
  if (coded.residencies == plan.residencies) return nullptr;
  return std::make_shared<Plan>(std::move(coded));
}

py::object frontier_of(const StepProgram& step, int32_t threads, const py::dict& options) {
  PlanRequest request = request_from(step, options);
  request.threads = threads;
  const Machine machine = machine_from(threads, options);
  const auto make = [&] {
    const py::gil_scoped_release release;
    return make_frontier(step.program, machine, request);
  };
  const Frontier frontier = make();
  py::list points;
  for (const Point& point : frontier.points) points.append(std::make_shared<Plan>(point.plan));
  return py::make_tuple(frontier.floor_bytes, points, culprits(frontier.culprits));
}

void bind_budgets(py::module_& module) {
  py::class_<WrittenBudget>(module, "WrittenBudget")
      .def(py::init<>())
      .def_readonly("bytes", &WrittenBudget::bytes)
      .def_readonly("percent", &WrittenBudget::percent)
      .def("of", &WrittenBudget::of);
  module.def("parse_budget", [](const std::string& text, const std::string& given) {
    return unwrap(parse_budget(text, given));
  });
  module.attr("STAGING_OF_EVICTED") = kStagingOfEvicted;
  module.attr("STAGING_OF_HOMES") = kStagingOfHomes;
  py::class_<BesideArena>(module, "BesideArena")
      .def(py::init<int64_t, int32_t, int64_t>(), py::arg("external_bytes"), py::arg("pieces"),
           py::arg("alignment_bytes") = kAlignmentBytes);
  py::class_<Budget>(module, "Budget")
      .def_readonly("reserve_bytes", &Budget::reserve_bytes)
      .def_readonly("host_bytes", &Budget::host_bytes)
      .def_readonly("staging_bytes", &Budget::staging_bytes)
      .def_readonly("capacity_bytes", &Budget::capacity_bytes);
  module.def("split_budget", &split_budget);
  module.def("budget_for", &budget_for);
  module.def("piece_bytes", &piece_bytes);
  module.attr("ALIGNMENT_BYTES") = kAlignmentBytes;
  module.attr("DISK_ALIGNMENT_BYTES") = kDiskAlignmentBytes;
  module.def("format_bytes", [](int64_t bytes) { return format_bytes(bytes); });
}

}  // namespace

void bind_planning(py::module_& module) {
  bind_budgets(module);
  py::class_<Plan, std::shared_ptr<Plan>>(module, "Plan")
      .def("certificate", &certificate)
      .def("run_counts", &run_counts)
      .def("offloaded", &offloaded)
      .def("packed", &packed)
      .def("homes_below", &homes_below)
      .def("program_hash", [](const Plan& plan) { return plan.program_hash; })
      .def("text", [](const Plan& plan) { return print_plan(plan); });
  module.def("parse_plan", [](const std::string& text) {
    return std::make_shared<Plan>(unwrap(parse_plan(text)));
  });
  module.def("may_code", &may_code);
  module.def("policy_names", [] {
    const std::span<const char* const> names = policy_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
  module.def("plan_step", &plan_step);
  module.def("measure_disk_link", &measure_drive);
  module.attr("HOST_PIECE_BYTES") = kHostPieceBytes;
  module.def("has_codecs", [](const std::string& text) {
    const Result<Machine> machine = parse_machine(text);
    return machine.has_value() && !machine->codecs.empty();
  });
  module.def("is_link", [](const std::string& text) {
    const Result<Machine> machine = parse_machine(text);
    return machine.has_value() && machine->links.size() == 1;
  });
  module.def("with_codes", &with_codes);
  module.def("frontier_of", &frontier_of);
}

}  // namespace fitstep::torch_side
