#include "tests/support/keep_all.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/check.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

bool has_address(const Residency& residency) {
  return residency.tier == kDeviceTier && residency.size_bytes > 0;
}

const Form& form_of(const Program& program, const Run& run) {
  return program.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
}

// Last op that uses each storage; -1 for none.
std::vector<int32_t> last_uses(const Program& program) {
  std::vector<int32_t> last(program.storages.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Form& form = program.ops[i].forms.front();
    for (const Read& read : form.reads) {
      if (read.kind != ReadKind::ShapeOnly) last[read.storage.index()] = static_cast<int32_t>(i);
    }
    for (const Write& write : form.writes) last[write.storage.index()] = static_cast<int32_t>(i);
  }
  return last;
}

// Distinct bytes of [begin, end) intervals.
int64_t distinct_bytes(std::vector<std::pair<int64_t, int64_t>> intervals) {
  std::ranges::sort(intervals);
  int64_t bytes = 0;
  int64_t covered = 0;
  for (const auto& [begin, end] : intervals) {
    bytes += std::max<int64_t>(0, end - std::max(begin, covered));
    covered = std::max(covered, end);
  }
  return bytes;
}

// Requests of one kernel: which are there at a position, and when the residency that an output
// request becomes is not there yet.
struct Kernel {
  const Form& form;
  const Run& run;

  bool is_ordered() const { return std::ranges::none_of(form.requests, &Request::is_any_thread); }

  Tick length() const {
    Tick length = 1;
    for (const Request& request : form.requests) length = std::max(length, request.live.end);
    return length;
  }

  // 0 where the output is not requested.
  Tick output_begin(StorageId output) const {
    for (const Request& request : form.requests) {
      if (request.output == output && is_ordered()) return request.live.begin;
    }
    return 0;
  }
};

class Certifier {
 public:
  Certifier(const Program& program, Plan& plan) : program_(program), plan_(plan) {}

  void run() {
    FITSTEP_CHECK(plan_.lane(Lane::Evict).empty() && plan_.lane(Lane::Prefetch).empty(),
                  "certify() is for plans of one lane");
    for (size_t i = 0; i < plan_.residencies.size(); ++i) {
      if (plan_.residencies[i].is_home) come(i);
    }
    measure({});
    for (const Action& action : plan_.lane(Lane::Compute)) {
      if (action.kind == Action::Kind::Copy) {
        come(action.copy.target.index());
        measure({});
      } else {
        run_kernel(Kernel{form_of(program_, action.run), action.run});
      }
      for (const ResidencyId released : action.releases) live_.erase(released.index());
    }
    plan_.program_hash = hash_program(program_);
    plan_.certificate.peak_bytes = peak_bytes_;
    plan_.certificate.height_bytes = height_bytes_;
    plan_.certificate.capacity_bytes = height_bytes_;
  }

 private:
  void come(size_t residency) {
    const Residency& it = plan_.residencies[residency];
    if (has_address(it)) live_[residency] = {it.offset_bytes, it.offset_bytes + it.size_bytes};
  }

  void run_kernel(const Kernel& kernel) {
    for (Tick position = 0; position < kernel.length(); ++position) {
      std::vector<std::pair<int64_t, int64_t>> scratch;
      for (size_t i = 0; i < kernel.form.writes.size(); ++i) {
        if (kernel.output_begin(kernel.form.writes[i].storage) > position) continue;
        come(kernel.run.writes[i].index());
      }
      for (size_t i = 0; i < kernel.form.requests.size(); ++i) {
        const Request& request = kernel.form.requests[i];
        const bool is_live =
            !kernel.is_ordered() || (request.live.begin <= position && position < request.live.end);
        if (!request.output.is_none() || !is_live) continue;
        const int64_t offset_bytes = kernel.run.request_offset_bytes[i];
        scratch.emplace_back(offset_bytes, offset_bytes + request.size_bytes);
      }
      measure(std::move(scratch));
    }
  }

  void measure(std::vector<std::pair<int64_t, int64_t>> intervals) {
    for (const auto& [residency, interval] : live_) intervals.push_back(interval);
    for (const auto& [begin, end] : intervals) {
      if (begin < end) height_bytes_ = std::max(height_bytes_, end);
    }
    peak_bytes_ = std::max(peak_bytes_, distinct_bytes(std::move(intervals)));
  }

  const Program& program_;
  Plan& plan_;
  std::map<size_t, std::pair<int64_t, int64_t>> live_;  // By residency: its bytes.
  int64_t peak_bytes_ = 0;
  int64_t height_bytes_ = 0;
};

// Puts the plan together, one op after another.
class Keeper {
 public:
  explicit Keeper(const Program& program)
      : program_(program), last_(last_uses(program)), residency_of_(program.storages.size()) {}

  Plan run() {
    for (size_t i = 0; i < program_.storages.size(); ++i) add_residency(StorageId(i));
    for (size_t i = 0; i < program_.ops.size(); ++i) add_run(OpId(i));
    certify(program_, plan_);
    return std::move(plan_);
  }

 private:
  void add_residency(StorageId id) {
    const Storage& storage = program_.storages[id.index()];
    if (last_[id.index()] < 0 && !storage.is_persistent) return;
    Residency residency{.storage = id, .size_bytes = storage.size_bytes};
    if (is_external(storage.kind)) {
      residency.tier = kExternalTier;
    } else {
      residency.is_home = storage.is_persistent;
      residency.offset_bytes = next_bytes_;
      next_bytes_ = align_up(next_bytes_ + storage.size_bytes, kAlignmentBytes);
    }
    residency_of_[id.index()] = ResidencyId(plan_.residencies.size());
    plan_.residencies.push_back(residency);
  }

  void add_run(OpId op) {
    const Form& form = program_.ops[op.index()].forms.front();
    Action action{.run = {.op = op}};
    for (const Read& read : form.reads) {
      const bool is_shape_only = read.kind == ReadKind::ShapeOnly;
      action.run.reads.push_back(is_shape_only ? ResidencyId() : operand(read.storage));
    }
    for (const Write& write : form.writes) action.run.writes.push_back(operand(write.storage));
    int64_t scratch_bytes = next_bytes_;
    for (const Request& request : form.requests) {
      const bool is_scratch = request.output.is_none();
      action.run.request_offset_bytes.push_back(is_scratch ? scratch_bytes
                                                           : address(request.output));
      if (is_scratch) scratch_bytes = align_up(scratch_bytes + request.size_bytes, kAlignmentBytes);
    }
    for (size_t i = 0; i < last_.size(); ++i) {
      if (last_[i] != op.value()) continue;
      const Residency& residency = plan_.residencies[residency_of_[i].index()];
      if (residency.is_home || residency.tier == kExternalTier) continue;
      action.releases.push_back(residency_of_[i]);
    }
    plan_.lane(Lane::Compute).push_back(std::move(action));
  }

  ResidencyId operand(StorageId storage) const { return residency_of_[storage.index()]; }

  int64_t address(StorageId storage) const {
    const Residency& residency = plan_.residencies[operand(storage).index()];
    return residency.tier == kExternalTier ? -1 : residency.offset_bytes;
  }

  const Program& program_;
  std::vector<int32_t> last_;  // By storage: the last op that uses it; -1 for none.
  std::vector<ResidencyId> residency_of_;
  int64_t next_bytes_ = 0;
  Plan plan_;
};

}  // namespace

Plan keep_all(const Program& program) { return Keeper(program).run(); }

void certify(const Program& program, Plan& plan) { Certifier(program, plan).run(); }

Limits limits_of(const Plan& plan) {
  Limits limits{.capacity_bytes = {plan.certificate.capacity_bytes}};
  for (const Residency& residency : plan.residencies) {
    if (residency.tier == kExternalTier || residency.tier == kDeviceTier) continue;
    const size_t tier = residency.tier.index();
    if (limits.capacity_bytes.size() <= tier) limits.capacity_bytes.resize(tier + 1, 0);
    limits.capacity_bytes[tier] =
        std::max(limits.capacity_bytes[tier], residency.offset_bytes + residency.size_bytes);
  }
  return limits;
}

}  // namespace fitstep
