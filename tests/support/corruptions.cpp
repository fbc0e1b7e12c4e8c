#include "tests/support/corruptions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

class Corrupter {
 public:
  Corrupter(const Program& program, const Plan& plan, const CorruptOptions& options,
            const std::function<void(const Corruption&)>& visit)
      : program_(program), plan_(plan), options_(options), visit_(visit), dice_(options.seed) {}

  void run() {
    for (size_t i = 0; i < plan_.residencies.size(); ++i) corrupt_residency(i);
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      for (size_t i = 0; i < plan_.lanes[lane].size(); ++i) corrupt_action(lane, i);
    }
    corrupt_recomputes();
    corrupt_whole();
  }

 private:
  // Shows what `change` makes of the plan, if that is another one.
  template <class Change>
  void add(const char* kind, const char* what, Change change) {
    if (options_.one_in > 1 && dice_() % options_.one_in != 0) return;
    Corruption made{.kind = kind, .what = what, .plan = plan_};
    change(made.plan);
    if (made.plan != plan_) visit_(made);
  }

  size_t below(size_t count) { return count == 0 ? 0 : dice_() % count; }

  ResidencyId any_residency() { return ResidencyId(below(plan_.residencies.size())); }

  // The other residencies of the same storage.
  std::vector<ResidencyId> siblings(ResidencyId id) const {
    std::vector<ResidencyId> found;
    if (id.is_none()) return found;
    for (size_t i = 0; i < plan_.residencies.size(); ++i) {
      const bool is_same = plan_.residencies[i].storage == plan_.residencies[id.index()].storage;
      if (is_same && i != id.index()) found.emplace_back(i);
    }
    return found;
  }

  // Which version of a storage is there, or which state of a generator.
  const char* version_of(ResidencyId id) const {
    const StorageId storage = plan_.residencies[id.index()].storage;
    return program_.storages[storage.index()].kind == StorageKind::Generator ? "generator"
                                                                             : "version";
  }

  int64_t any_offset() {
    const ResidencyId id = any_residency();
    return plan_.residencies[id.index()].offset_bytes;
  }

  void corrupt_residency(size_t i) {
    const int64_t offset_bytes = plan_.residencies[i].offset_bytes;
    for (const int64_t other :
         {offset_bytes + kAlignmentBytes, offset_bytes - kAlignmentBytes, offset_bytes + 1,
          any_offset(), any_offset(), any_offset(), int64_t{0}, int64_t{1} << 50}) {
      add("address", "of a residency", [&](Plan& plan) { move(plan, i, other); });
    }
    add("address", "of a residency alone",
        [&](Plan& plan) { plan.residencies[i].offset_bytes = any_offset(); });
    for (const int32_t storage :
         {plan_.residencies[i].storage.value() + 1, -1, static_cast<int32_t>(below(99))}) {
      add("storage", "of a residency",
          [&](Plan& plan) { plan.residencies[i].storage = StorageId(storage); });
    }
    for (const TierId tier :
         {TierId(), kDeviceTier, kHostTier, kDiskTier, TierId(77), kExternalTier}) {
      add("tier", "of a residency", [&](Plan& plan) { plan.residencies[i].tier = tier; });
    }
    for (const int64_t change : {-1, 1, 64, -1000}) {
      add("size", "of a residency", [&](Plan& plan) { plan.residencies[i].size_bytes += change; });
    }
    for (const Code code : {Code::ZeroValue, Code::Zstd}) {
      add("code", "of a residency", [&](Plan& plan) { plan.residencies[i].code = code; });
    }
    add("cycle", "a home more or less",
        [&](Plan& plan) { plan.residencies[i].is_home = !plan.residencies[i].is_home; });
  }

  // Requests that become the residency go with it, so that only space can be wrong.
  void move(Plan& plan, size_t residency, int64_t offset_bytes) const {
    plan.residencies[residency].offset_bytes = offset_bytes;
    if (plan.residencies[residency].tier == kExternalTier) return;
    for (Action& action : plan.lane(Lane::Compute)) {
      if (action.kind != Action::Kind::Run) continue;
      const Form& form =
          program_.ops[action.run.op.index()].forms[static_cast<size_t>(action.run.form)];
      for (size_t w = 0; w < form.writes.size(); ++w) {
        if (action.run.writes[w] != ResidencyId(residency)) continue;
        for (size_t r = 0; r < form.requests.size(); ++r) {
          const bool is_its = form.requests[r].output == form.writes[w].storage;
          if (is_its) action.run.request_offset_bytes[r] = offset_bytes;
        }
      }
    }
  }

  void corrupt_action(size_t lane, size_t i) {
    const Action& action = plan_.lanes[lane][i];
    const auto at = [lane, i](Plan& plan) -> Action& { return plan.lanes[lane][i]; };
    add("op", "copied, or a copy run", [&](Plan& plan) {
      const bool is_run = action.kind == Action::Kind::Run;
      at(plan).kind = is_run ? Action::Kind::Copy : Action::Kind::Run;
    });
    if (action.kind == Action::Kind::Run) {
      corrupt_run(action.run, at);
    } else {
      for (const ResidencyId other : siblings(action.copy.source)) {
        const char* kind = version_of(other);
        add(kind, "copied from another", [&](Plan& plan) { at(plan).copy.source = other; });
        add(kind, "copied to another", [&](Plan& plan) { at(plan).copy.target = other; });
      }
      for (const ResidencyId other : {any_residency(), ResidencyId(), ResidencyId(99999)}) {
        add("operand", "of a copy", [&](Plan& plan) { at(plan).copy.source = other; });
        add("operand", "of a copy", [&](Plan& plan) { at(plan).copy.target = other; });
      }
      add(version_of(action.copy.source), "copied backwards",
          [&](Plan& plan) { std::swap(at(plan).copy.source, at(plan).copy.target); });
    }
    corrupt_waits(action, at);
    corrupt_releases(lane, i);
    corrupt_order(lane, i);
  }

  template <class At>
  void corrupt_run(const Run& run, At at) {
    for (const int32_t op : {run.op.value() - 1, run.op.value() + 1, -1}) {
      add("op", "another", [&](Plan& plan) { at(plan).run.op = OpId(op); });
    }
    for (const int32_t form : {run.form + 1, run.form - 1, 99}) {
      add("op", "another form", [&](Plan& plan) { at(plan).run.form = form; });
    }
    corrupt_operands(run.reads, [at](Plan& plan) -> auto& { return at(plan).run.reads; });
    corrupt_operands(run.writes, [at](Plan& plan) -> auto& { return at(plan).run.writes; });
    add("address", "of a request",
        [&](Plan& plan) { at(plan).run.request_offset_bytes.push_back(0); });
    for (size_t k = 0; k < run.request_offset_bytes.size(); ++k) {
      const int64_t offset_bytes = run.request_offset_bytes[k];
      for (const int64_t other : {offset_bytes + kAlignmentBytes, offset_bytes - kAlignmentBytes,
                                  any_offset(), any_offset(), int64_t{0}}) {
        add("address", "of a request",
            [&](Plan& plan) { at(plan).run.request_offset_bytes[k] = other; });
      }
    }
  }

  template <class ListOf>
  void corrupt_operands(const std::vector<ResidencyId>& operands, ListOf list_of) {
    for (size_t k = 0; k < operands.size(); ++k) {
      for (const ResidencyId other : siblings(operands[k])) {
        add(version_of(other), "of another residency",
            [&](Plan& plan) { list_of(plan)[k] = other; });
      }
      for (const ResidencyId other : {any_residency(), ResidencyId(), ResidencyId(99999)}) {
        add("operand", "of an op", [&](Plan& plan) { list_of(plan)[k] = other; });
      }
    }
    add("operand", "one more", [&](Plan& plan) { list_of(plan).push_back(any_residency()); });
    if (operands.empty()) return;
    add("operand", "one less", [&](Plan& plan) { list_of(plan).pop_back(); });
  }

  template <class At>
  void corrupt_waits(const Action& action, At at) {
    for (size_t k = 0; k < action.waits.size(); ++k) {
      add("wait", "dropped", [&](Plan& plan) {
        at(plan).waits.erase(at(plan).waits.begin() + static_cast<std::ptrdiff_t>(k));
      });
      add("wait", "for one earlier", [&](Plan& plan) { --at(plan).waits[k].position; });
      add("wait", "for one later", [&](Plan& plan) { ++at(plan).waits[k].position; });
    }
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const auto position = static_cast<int32_t>(below(plan_.lanes[lane].size() + 1));
      add("wait", "added", [&](Plan& plan) { at(plan).waits.push_back({Lane{lane}, position}); });
    }
  }

  void corrupt_releases(size_t lane, size_t i) {
    const std::vector<ResidencyId>& releases = plan_.lanes[lane][i].releases;
    const size_t count = plan_.lanes[lane].size();
    for (size_t k = 0; k < releases.size(); ++k) {
      const auto drop = [&](Plan& plan) {
        std::vector<ResidencyId>& list = plan.lanes[lane][i].releases;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(k));
      };
      add("cycle", "never released", drop);
      if (i > 0) {
        for (const size_t earlier : {below(i), i - 1}) {
          add("early release", "by another", [&](Plan& plan) {
            drop(plan);
            plan.lanes[lane][earlier].releases.push_back(releases[k]);
          });
        }
      }
      add("late release", "by the next", [&](Plan& plan) {
        drop(plan);
        plan.lanes[lane][std::min(i + 1, count - 1)].releases.push_back(releases[k]);
      });
      add("release", "twice", [&](Plan& plan) {
        plan.lanes[lane][i + below(count - i)].releases.push_back(releases[k]);
      });
    }
    for (const ResidencyId other : {any_residency(), ResidencyId(99999)}) {
      add("release", "of any", [&](Plan& plan) { plan.lanes[lane][i].releases.push_back(other); });
    }
  }

  void corrupt_order(size_t lane, size_t i) {
    const size_t count = plan_.lanes[lane].size();
    const auto place = static_cast<std::ptrdiff_t>(i);
    const auto swap_with = [&](size_t other) {
      add("order", "two change places",
          [&](Plan& plan) { std::swap(plan.lanes[lane][i], plan.lanes[lane][other]); });
    };
    swap_with(std::min(i + 1, count - 1));
    swap_with(below(count));
    const bool is_again = lane == 0 && is_recompute(i);
    add(is_again ? "missing recompute" : "missing action", "left out",
        [&](Plan& plan) { plan.lanes[lane].erase(plan.lanes[lane].begin() + place); });
    add("twice", "an action", [&](Plan& plan) {
      const Action copy = plan.lanes[lane][i];
      plan.lanes[lane].insert(plan.lanes[lane].begin() + place, copy);
    });
  }

  // The first run of the op that runs at this position of the compute lane.
  size_t first_run(size_t i) const {
    const std::vector<Action>& lane = plan_.lane(Lane::Compute);
    for (size_t k = 0; k < i; ++k) {
      if (lane[k].kind == Action::Kind::Run && lane[k].run.op == lane[i].run.op) return k;
    }
    return i;
  }

  bool is_recompute(size_t i) const {
    return plan_.lane(Lane::Compute)[i].kind == Action::Kind::Run && first_run(i) != i;
  }

  void corrupt_recomputes() {
    const std::vector<Action>& lane = plan_.lane(Lane::Compute);
    for (size_t i = 0; i < lane.size(); ++i) {
      read_too_late(i);
      draw_otherwise(i);
      if (is_recompute(i)) {
        read_the_first_instead(i);
        draw_again(i);
      }
    }
  }

  // Behind the next write of what it reads: it sees the version after the one that it needs.
  void read_too_late(size_t i) {
    const std::vector<Action>& lane = plan_.lane(Lane::Compute);
    const bool is_copy = lane[i].kind == Action::Kind::Copy;
    const std::vector<ResidencyId> reads =
        is_copy ? std::vector{lane[i].copy.source} : lane[i].run.reads;
    for (const ResidencyId read : reads) {
      if (read.is_none()) continue;
      for (size_t k = i + 1; k < lane.size(); ++k) {
        if (lane[k].kind != Action::Kind::Run) continue;
        if (std::ranges::count(lane[k].run.writes, read) == 0) continue;
        add(version_of(read), "read after the next write", [&](Plan& plan) {
          const auto begin = plan.lane(Lane::Compute).begin();
          std::rotate(begin + static_cast<std::ptrdiff_t>(i),
                      begin + static_cast<std::ptrdiff_t>(i + 1),
                      begin + static_cast<std::ptrdiff_t>(k + 1));
        });
        break;
      }
    }
  }

  // Whoever reads what the recompute makes finds the residency of the op's first run instead.
  void read_the_first_instead(size_t i) {
    const std::vector<Action>& lane = plan_.lane(Lane::Compute);
    for (const ResidencyId made : lane[i].run.writes) {
      for (const ResidencyId first : siblings(made)) {
        if (std::ranges::count(lane[first_run(i)].run.writes, first) == 0) continue;
        add("missing recompute", "its readers take the first", [&](Plan& plan) {
          for (Action& action : plan.lane(Lane::Compute)) {
            std::ranges::replace(action.run.reads, made, first);
          }
        });
      }
    }
  }

  // A draw more than the program has, or one less.
  void draw_otherwise(size_t i) {
    const std::vector<ResidencyId>& writes = plan_.lane(Lane::Compute)[i].run.writes;
    const bool is_draw = std::ranges::any_of(
        writes, [&](ResidencyId id) { return version_of(id) == std::string_view("generator"); });
    if (!is_draw) return;
    const auto place = static_cast<std::ptrdiff_t>(i);
    add("generator", "drawn twice", [&](Plan& plan) {
      std::vector<Action>& lane = plan.lane(Lane::Compute);
      lane.insert(lane.begin() + place, Action{.run = lane[i].run});
    });
    add("generator", "not drawn", [&](Plan& plan) {
      std::vector<Action>& lane = plan.lane(Lane::Compute);
      lane.erase(lane.begin() + place);
    });
  }

  // The default form, which advances the generator, in place of the one that restores its state.
  void draw_again(size_t i) {
    const std::vector<Action>& lane = plan_.lane(Lane::Compute);
    const std::vector<Form>& forms = program_.ops[lane[i].run.op.index()].forms;
    const Form& again = forms[static_cast<size_t>(lane[i].run.form)];
    if (!again.restores_generator) return;
    add("generator", "drawn again", [&](Plan& plan) {
      Run run = plan_.lane(Lane::Compute)[first_run(i)].run;
      for (size_t w = 0; w < again.writes.size(); ++w) {
        const auto same =
            std::ranges::find(forms[0].writes, again.writes[w].storage, &Write::storage);
        const auto place = static_cast<size_t>(same - forms[0].writes.begin());
        run.writes[place] = lane[i].run.writes[w];
        for (size_t r = 0; r < forms[0].requests.size(); ++r) {
          if (forms[0].requests[r].output != again.writes[w].storage) continue;
          run.request_offset_bytes[r] = plan_.residencies[run.writes[place].index()].offset_bytes;
        }
      }
      plan.lane(Lane::Compute)[i].run = std::move(run);
    });
  }

  void corrupt_whole() {
    add("program", "hash", [](Plan& plan) { plan.program_hash[0] ^= 1; });
    add("program", "hash", [](Plan& plan) { plan.program_hash.clear(); });
    for (const int64_t change : {-1, 1, -64, 64}) {
      add("certificate", "peak", [&](Plan& it) { it.certificate.peak_bytes += change; });
      add("certificate", "height", [&](Plan& it) { it.certificate.height_bytes += change; });
    }
    add("certificate", "floor",
        [](Plan& it) { it.certificate.floor_bytes = it.certificate.height_bytes + 1; });
    add("certificate", "capacity",
        [](Plan& it) { it.certificate.capacity_bytes = it.certificate.height_bytes - 1; });
    add("label", "policy", [](Plan& it) { it.policy = "other"; });
    add("label", "seed", [](Plan& it) { ++it.seed; });
    add("label", "predicted time", [](Plan& it) { ++it.certificate.predicted_ps; });
    add("label", "bound on time", [](Plan& it) { ++it.certificate.bound_ps; });
    add("label", "which bound", [](Plan& it) { it.certificate.bound = "other"; });
    add("label", "moves", [](Plan& it) { it.certificate.moves = "other"; });
    add("residency", "less", [](Plan& it) { it.residencies.pop_back(); });
    add("residency", "more", [](Plan& it) { it.residencies.push_back(it.residencies.front()); });
  }

  const Program& program_;
  const Plan& plan_;
  const CorruptOptions& options_;
  const std::function<void(const Corruption&)>& visit_;
  std::mt19937_64 dice_;
};

}  // namespace

void corrupt(const Program& program, const Plan& plan, const CorruptOptions& options,
             const std::function<void(const Corruption&)>& visit) {
  Corrupter(program, plan, options, visit).run();
}

}  // namespace fitstep
