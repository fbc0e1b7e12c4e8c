#include <pybind11/functional.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/planner/ask.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/policies.h"
#include "fitstep/planner/search.h"
#include "fitstep/run/host_copies.h"
#include "fitstep/run/lane_copies.h"
#include "fitstep/run/measure/measure_disk.h"
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

Link link_from(const std::string& text, TierId upper) {
  Link link = unwrap(parse_machine(text)).links.front();
  link.upper = upper;
  return link;
}

// A machine with the lower tiers and their measured links; only the device if there are none.
Machine machine_below(int32_t threads, int64_t host_bytes, const std::string& host_link,
                      int64_t disk_bytes, const std::string& disk_link, const std::string& codecs) {
  Machine machine = local_machine(threads);
  if (host_bytes == 0 && disk_bytes == 0) return machine;
  machine.tiers.push_back(
      {.name = "host", .capacity_bytes = host_bytes, .is_closed = host_bytes == 0});
  machine.links = {link_from(host_link, kDeviceTier)};
  if (!codecs.empty()) machine.codecs = unwrap(parse_machine(codecs)).codecs;
  if (disk_bytes == 0) return machine;
  machine.tiers.push_back({.name = "disk", .capacity_bytes = disk_bytes});
  machine.links.push_back(link_from(disk_link, kHostTier));
  return machine;
}

}  // namespace

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

// Bytes that a plan's lanes copy, and bytes that lower tiers hold for it.
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

// (number of ops that run once, number of recomputes).
py::tuple run_counts(const Plan& plan, const StepProgram& step) {
  std::vector<int64_t> runs(step.program.ops.size(), 0);
  for (const Action& action : plan.lane(Lane::Compute)) {
    if (action.kind == Action::Kind::Run) ++runs[action.run.op.index()];
  }
  int64_t again = 0;
  for (const int64_t count : runs) again += std::max<int64_t>(count - 1, 0);
  return py::make_tuple(std::ranges::count(runs, 1), again);
}

// For each value that the plan packs: (name, packing operator, its bytes, code's bytes).
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

// The planner calls and copies it without the GIL, so it takes the GIL itself.
std::function<void(double)> shown(const py::object& progress) {
  if (progress.is_none()) return {};
  return [show = std::make_shared<py::object>(progress)](double share) {
    const py::gil_scoped_acquire acquire;
    (*show)(share);
  };
}

BudgetAnswer answer_to(const BudgetQuestion& question) {
  const py::gil_scoped_release release;
  return ask(question);
}

// The plan with those codes that pay by the program's samples; None if they are the same codes.
std::shared_ptr<Plan> with_codes(const StepProgram& step, const Plan& plan, const Machine& machine,
                                 const std::string& policy, bool on_disk, bool on_host) {
  Plan coded = plan;
  {
    const py::gil_scoped_release release;
    put_codes(step.program, machine,
              {.policy = policy, .codes_on_disk = on_disk, .codes_on_host = on_host}, coded);
  }
  if (coded.residencies == plan.residencies) return nullptr;
  return std::make_shared<Plan>(std::move(coded));
}

// All plans of the frontier. With a host tier the planner chooses homes, too.
std::vector<std::shared_ptr<Plan>> frontier_of(const StepProgram& step,
                                               const BudgetQuestion& question) {
  const auto make = [&] {
    const py::gil_scoped_release release;
    const Machine machine =
        question.machine_for(std::max<int64_t>(question.budget_bytes - question.outside_bytes, 0));
    PlanRequest request = question.request;
    if (room_bytes(machine, kHostTier) == 0) {
      request.homes = homes_for(step.program, question.places);
      request.bottom_bytes = question.places.bottom_bytes;
    }
    return make_frontier(step.program, machine, request);
  };
  std::vector<std::shared_ptr<Plan>> plans;
  for (const Point& point : make().points) plans.push_back(std::make_shared<Plan>(point.plan));
  return plans;
}

void bind_questions(py::module_& module) {
  py::class_<Machine>(module, "Machine").def(py::init([](int32_t threads) {
    return local_machine(threads);
  }));
  module.def("machine", &machine_below, py::kw_only(), py::arg("threads"), py::arg("host_bytes"),
             py::arg("host_link"), py::arg("disk_bytes"), py::arg("disk_link"), py::arg("codecs"));
  module.def("with_homes_on_disk", &with_homes_on_disk);
  module.def("has_homes_at", [](const StepProgram& step, const Plan& plan, const Places& places) {
    return has_homes_at(step.program, plan, places);
  });
  py::class_<SharedHome>(module, "SharedHome")
      .def(py::init<std::string, int64_t, bool, bool, int64_t>())
      .def_readonly("name", &SharedHome::name)
      .def_readonly("is_below", &SharedHome::is_below)
      .def_readonly("offset_bytes", &SharedHome::offset_bytes);
  py::class_<Places>(module, "Places")
      .def(py::init<std::vector<SharedHome>, int64_t, int64_t, bool>())
      .def_readonly("homes", &Places::homes)
      .def_readonly("bottom_bytes", &Places::bottom_bytes)
      .def_readonly("host_bottom_bytes", &Places::host_bottom_bytes)
      .def_readonly("on_disk", &Places::on_disk);
  py::class_<BudgetQuestion>(module, "BudgetQuestion")
      .def(py::init([](int32_t threads, uint64_t seed, int32_t effort, bool codes_on_disk,
                       bool codes_on_host, const py::object& progress) {
             return BudgetQuestion{.request = {.seed = seed,
                                               .effort = effort,
                                               .threads = threads,
                                               .codes_on_disk = codes_on_disk,
                                               .codes_on_host = codes_on_host,
                                               .progress = shown(progress)}};
           }),
           py::kw_only(), py::arg("threads"), py::arg("seed"), py::arg("effort"),
           py::arg("codes_on_disk"), py::arg("codes_on_host"), py::arg("progress"))
      .def(
          "add",
          [](BudgetQuestion& question, const StepProgram& step, const std::string& policy,
             const Plan* given) {
            question.programs.push_back(
                {.program = &step.program, .policy = policy, .given = given});
          },
          py::keep_alive<1, 2>(), py::keep_alive<1, 4>())
      .def_readwrite("places", &BudgetQuestion::places)
      .def_readwrite("budget_bytes", &BudgetQuestion::budget_bytes)
      .def_readwrite("outside_bytes", &BudgetQuestion::outside_bytes)
      .def_readwrite("external_bytes", &BudgetQuestion::external_bytes)
      .def_readwrite("alignment_bytes", &BudgetQuestion::alignment_bytes)
      .def_readwrite("machine_for", &BudgetQuestion::machine_for)
      .def_readwrite("may_have_homes_on_disk", &BudgetQuestion::may_have_homes_on_disk)
      .def_readwrite("may_grow", &BudgetQuestion::may_grow)
      .def_readwrite("arena_bytes", &BudgetQuestion::arena_bytes)
      .def_readwrite("finds_least", &BudgetQuestion::finds_least)
      .def_property(
          "takes_first_plan",
          [](const BudgetQuestion& question) { return question.request.takes_first_plan; },
          [](BudgetQuestion& question, bool takes) { question.request.takes_first_plan = takes; })
      .def("answer", &answer_to);
}

void bind_answers(py::module_& module) {
  py::class_<Fitting>(module, "Fitting")
      .def_property_readonly("plans",
                             [](const Fitting& fitting) {
                               std::vector<std::shared_ptr<Plan>> plans;
                               for (const Plan& plan : fitting.plans) {
                                 plans.push_back(std::make_shared<Plan>(plan));
                               }
                               return plans;
                             })
      .def_readonly("places", &Fitting::places)
      .def_readonly("capacity_bytes", &Fitting::capacity_bytes)
      .def_readonly("budget_bytes", &Fitting::budget_bytes);
  py::class_<Refusal>(module, "Refusal")
      .def_readonly("budget_bytes", &Refusal::budget_bytes)
      .def_readonly("floor_budget_bytes", &Refusal::floor_budget_bytes)
      .def_readonly("least_budget_bytes", &Refusal::least_budget_bytes)
      .def_readonly("binding", &Refusal::binding)
      .def_property_readonly("culprits", [](const Refusal& one) { return culprits(one.culprits); })
      .def_readonly("does_auto_fit", &Refusal::does_auto_fit);
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
      .def_readonly("small_tensor_bytes", &Budget::small_tensor_bytes)
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
  bind_questions(module);
  bind_answers(module);
  py::class_<Plan, std::shared_ptr<Plan>>(module, "Plan")
      .def("certificate", &certificate)
      .def("run_counts", &run_counts)
      .def("offloaded", &offloaded)
      .def("packed", &packed)
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
