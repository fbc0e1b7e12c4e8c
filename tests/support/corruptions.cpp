#include "tests/support/corruptions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

class Corrupter {
 public:
  Corrupter(const Program& program, const Plan& plan, uint64_t seed)
      : program_(program), plan_(plan), dice_(seed) {}

  std::vector<Corruption> run() {
    for (size_t i = 0; i < plan_.residencies.size(); ++i) corrupt_residency(i);
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      for (size_t i = 0; i < plan_.lanes[lane].size(); ++i) corrupt_action(lane, i);
    }
    corrupt_whole();
    return std::move(made_);
  }

 private:
  // Keeps what `change` makes of the plan, if that is another one.
  template <class Change>
  void add(const char* field, Change change) {
    Plan plan = plan_;
    change(plan);
    if (plan != plan_) made_.push_back({field, std::move(plan)});
  }

  size_t below(size_t count) { return count == 0 ? 0 : dice_() % count; }

  ResidencyId any_residency() { return ResidencyId(below(plan_.residencies.size())); }

  // Another residency of the same storage, or else any.
  ResidencyId sibling(ResidencyId id) {
    if (id.is_none()) return any_residency();
    std::vector<ResidencyId> siblings;
    for (size_t i = 0; i < plan_.residencies.size(); ++i) {
      const bool is_same = plan_.residencies[i].storage == plan_.residencies[id.index()].storage;
      if (is_same && i != id.index()) siblings.emplace_back(i);
    }
    return siblings.empty() ? any_residency() : siblings[below(siblings.size())];
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
      add("residency.offset_bytes", [&](Plan& plan) { move(plan, i, other); });
    }
    add("residency.offset_bytes alone",
        [&](Plan& plan) { plan.residencies[i].offset_bytes = any_offset(); });
    for (const int32_t storage :
         {plan_.residencies[i].storage.value() + 1, -1, static_cast<int32_t>(below(99))}) {
      add("residency.storage",
          [&](Plan& plan) { plan.residencies[i].storage = StorageId(storage); });
    }
    for (const TierId tier : {TierId(), kDeviceTier, TierId(1), TierId(77), kExternalTier}) {
      add("residency.tier", [&](Plan& plan) { plan.residencies[i].tier = tier; });
    }
    for (const int64_t change : {-1, 1, 64, -1000}) {
      add("residency.size_bytes", [&](Plan& plan) { plan.residencies[i].size_bytes += change; });
    }
    for (const Code code : {Code::SignBits, Code::NarrowInteger, Code::ZeroValue, Code::Zstd}) {
      add("residency.code", [&](Plan& plan) { plan.residencies[i].code = code; });
    }
    add("residency.is_home",
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
    add("action.kind", [&](Plan& plan) {
      const bool is_run = action.kind == Action::Kind::Run;
      at(plan).kind = is_run ? Action::Kind::Copy : Action::Kind::Run;
    });
    if (action.kind == Action::Kind::Run) {
      corrupt_run(action.run, at);
    } else {
      add("copy.source", [&](Plan& plan) { at(plan).copy.source = sibling(action.copy.source); });
      add("copy.target", [&](Plan& plan) { at(plan).copy.target = sibling(action.copy.target); });
      add("copy.source", [&](Plan& plan) { at(plan).copy.source = ResidencyId(); });
      add("copy.target", [&](Plan& plan) { at(plan).copy.target = ResidencyId(99999); });
      add("copy", [&](Plan& plan) { std::swap(at(plan).copy.source, at(plan).copy.target); });
    }
    corrupt_waits(action, at);
    corrupt_releases(lane, i);
    corrupt_order(lane, i);
  }

  template <class At>
  void corrupt_run(const Run& run, At at) {
    for (const int32_t op : {run.op.value() - 1, run.op.value() + 1, -1}) {
      add("run.op", [&](Plan& plan) { at(plan).run.op = OpId(op); });
    }
    for (const int32_t form : {run.form + 1, run.form - 1, 99}) {
      add("run.form", [&](Plan& plan) { at(plan).run.form = form; });
    }
    for (size_t k = 0; k < run.reads.size(); ++k) {
      for (const ResidencyId other :
           {sibling(run.reads[k]), any_residency(), ResidencyId(), ResidencyId(99999)}) {
        add("run.reads", [&](Plan& plan) { at(plan).run.reads[k] = other; });
      }
    }
    for (size_t k = 0; k < run.writes.size(); ++k) {
      for (const ResidencyId other :
           {sibling(run.writes[k]), any_residency(), ResidencyId(), ResidencyId(99999)}) {
        add("run.writes", [&](Plan& plan) { at(plan).run.writes[k] = other; });
      }
    }
    add("run.reads", [&](Plan& plan) { at(plan).run.reads.push_back(any_residency()); });
    add("run.writes", [&](Plan& plan) { at(plan).run.writes.push_back(any_residency()); });
    if (!run.reads.empty()) add("run.reads", [&](Plan& plan) { at(plan).run.reads.pop_back(); });
    if (!run.writes.empty()) add("run.writes", [&](Plan& plan) { at(plan).run.writes.pop_back(); });
    add("run.request_offset_bytes",
        [&](Plan& plan) { at(plan).run.request_offset_bytes.push_back(0); });
    for (size_t k = 0; k < run.request_offset_bytes.size(); ++k) {
      const int64_t offset_bytes = run.request_offset_bytes[k];
      for (const int64_t other : {offset_bytes + kAlignmentBytes, offset_bytes - kAlignmentBytes,
                                  any_offset(), any_offset(), int64_t{0}}) {
        add("run.request_offset_bytes",
            [&](Plan& plan) { at(plan).run.request_offset_bytes[k] = other; });
      }
    }
  }

  template <class At>
  void corrupt_waits(const Action& action, At at) {
    for (size_t k = 0; k < action.waits.size(); ++k) {
      add("waits dropped", [&](Plan& plan) {
        at(plan).waits.erase(at(plan).waits.begin() + static_cast<std::ptrdiff_t>(k));
      });
      add("waits earlier", [&](Plan& plan) { --at(plan).waits[k].position; });
      add("waits later", [&](Plan& plan) { ++at(plan).waits[k].position; });
    }
    for (const Lane lane : {Lane::Compute, Lane::Evict, Lane::Prefetch}) {
      const auto position = static_cast<int32_t>(below(plan_.lane(lane).size() + 1));
      add("waits added", [&](Plan& plan) { at(plan).waits.push_back({lane, position}); });
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
      add("releases missing", drop);
      add("releases early", [&](Plan& plan) {
        drop(plan);
        plan.lanes[lane][below(i)].releases.push_back(releases[k]);
      });
      add("releases early", [&](Plan& plan) {
        drop(plan);
        plan.lanes[lane][i == 0 ? 0 : i - 1].releases.push_back(releases[k]);
      });
      add("releases late", [&](Plan& plan) {
        drop(plan);
        plan.lanes[lane][std::min(i + 1, count - 1)].releases.push_back(releases[k]);
      });
      add("releases twice", [&](Plan& plan) {
        plan.lanes[lane][i + below(count - i)].releases.push_back(releases[k]);
      });
    }
    add("releases added",
        [&](Plan& plan) { plan.lanes[lane][i].releases.push_back(any_residency()); });
    add("releases added",
        [&](Plan& plan) { plan.lanes[lane][i].releases.push_back(ResidencyId(99999)); });
  }

  void corrupt_order(size_t lane, size_t i) {
    const size_t count = plan_.lanes[lane].size();
    const auto place = static_cast<std::ptrdiff_t>(i);
    const auto swap_with = [&](size_t other) {
      add("order", [&](Plan& plan) { std::swap(plan.lanes[lane][i], plan.lanes[lane][other]); });
    };
    swap_with(std::min(i + 1, count - 1));
    swap_with(below(count));
    add("action dropped",
        [&](Plan& plan) { plan.lanes[lane].erase(plan.lanes[lane].begin() + place); });
    add("action twice", [&](Plan& plan) {
      const Action copy = plan.lanes[lane][i];
      plan.lanes[lane].insert(plan.lanes[lane].begin() + place, copy);
    });
  }

  void corrupt_whole() {
    add("program_hash", [](Plan& plan) { plan.program_hash[0] ^= 1; });
    add("program_hash", [](Plan& plan) { plan.program_hash.clear(); });
    for (const int64_t change : {-1, 1, -64, 64}) {
      add("certificate.peak_bytes", [&](Plan& it) { it.certificate.peak_bytes += change; });
      add("certificate.height_bytes", [&](Plan& it) { it.certificate.height_bytes += change; });
    }
    add("certificate.floor_bytes",
        [](Plan& it) { it.certificate.floor_bytes = it.certificate.height_bytes + 1; });
    add("certificate.capacity_bytes",
        [](Plan& it) { it.certificate.capacity_bytes = it.certificate.height_bytes - 1; });
    add("policy", [](Plan& it) { it.policy = "other"; });
    add("seed", [](Plan& it) { ++it.seed; });
    add("certificate.predicted_ps", [](Plan& it) { ++it.certificate.predicted_ps; });
    add("certificate.bound_ps", [](Plan& it) { ++it.certificate.bound_ps; });
    add("certificate.bound", [](Plan& it) { it.certificate.bound = "other"; });
    add("certificate.moves", [](Plan& it) { it.certificate.moves = "other"; });
    add("residencies dropped", [](Plan& it) { it.residencies.pop_back(); });
    add("residencies added", [](Plan& it) { it.residencies.push_back(it.residencies.front()); });
  }

  const Program& program_;
  const Plan& plan_;
  std::mt19937_64 dice_;
  std::vector<Corruption> made_;
};

}  // namespace

std::vector<Corruption> corruptions(const Program& program, const Plan& plan, uint64_t seed) {
  return Corrupter(program, plan, seed).run();
}

}  // namespace fitstep
