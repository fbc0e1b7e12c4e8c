// check_shape(): if it finds no fault, every index in the plan is valid.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/plan/verify_parts.h"
#include "fitstep/program/program.h"

namespace fitstep::verifier {
namespace {

// Limit of the sum of all sizes of a plan, so that no later sum overflows.
constexpr int64_t kMostBytesTogether = 4 * kMostBytes;

template <class Tag, class List>
bool is_in(Id<Tag> id, const List& list) {
  return !id.is_none() && id.index() < list.size();
}

class ShapeCheck {
 public:
  ShapeCheck(const Subject& subject, Faults& faults) : subject_(subject), faults_(faults) {}

  void run() {
    for (size_t i = 0; i < subject_.plan.residencies.size(); ++i) check_residency(ResidencyId(i));
    check_singles();
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const size_t count = subject_.plan.lane(Lane{lane}).size();
      for (size_t i = 0; i < count && !faults_.is_full(); ++i) {
        check_action(ActionRef{Lane{lane}, static_cast<int32_t>(i)});
      }
    }
  }

 private:
  template <class... Arguments>
  void malformed(fmt::format_string<const Arguments&...> format, const Arguments&... arguments) {
    faults_.add(FaultKind::Malformed, format, arguments...);
  }

  // Adds to the bytes of the whole plan. Returns false, with a fault, if size or sum is too large.
  bool add_bytes(int64_t size_bytes) {
    if (size_bytes >= 0 && size_bytes <= kMostBytes) total_bytes_ += size_bytes;
    if (size_bytes >= 0 && size_bytes <= kMostBytes && total_bytes_ <= kMostBytesTogether) {
      return true;
    }
    malformed("a block has {} bytes; the limit is 2^60, and 2^62 for all blocks together",
              size_bytes);
    total_bytes_ = 0;
    return false;
  }

  void check_residency(ResidencyId id) {
    const Residency& residency = subject_.residency(id);
    if (!is_in(residency.storage, subject_.program.storages)) {
      malformed("residency {} is of storage {}; the program has {}", id.value(),
                residency.storage.value(), subject_.program.storages.size());
      return;
    }
    const Storage& storage = subject_.storage(id);
    check_tier(id, storage);
    if (!add_bytes(residency.size_bytes)) return;
    if (residency.code < Code::None || residency.code > Code::Zstd) {
      malformed("{} has the unknown code {}", subject_.label(id), static_cast<int>(residency.code));
    } else if (residency.size_bytes != storage.size_bytes) {
      malformed("{} has {} bytes; the storage has {}", subject_.label(id), residency.size_bytes,
                storage.size_bytes);
    }
    if (residency.code != Code::None && (residency.is_home || subject_.is_external(id))) {
      malformed("{} is coded, but Python can see it", subject_.label(id));
    }
  }

  void check_tier(ResidencyId id, const Storage& storage) {
    const Residency& residency = subject_.residency(id);
    if (residency.tier == kExternalTier) {
      if (!is_external(storage.kind)) {
        malformed("{} is external, but a storage of kind {} needs an address", subject_.label(id),
                  to_string(storage.kind));
      }
      return;
    }
    if (!is_in(residency.tier, subject_.limits.capacity_bytes)) {
      malformed("{} is on tier {}; there are {} tiers", subject_.label(id), residency.tier.value(),
                subject_.limits.capacity_bytes.size());
    }
    if (residency.offset_bytes < 0 || residency.offset_bytes > kMostBytes) {
      malformed("{} is at offset {}, not from 0 to 2^60", subject_.label(id),
                residency.offset_bytes);
    }
    if (residency.is_home && (!storage.is_persistent || is_external(storage.kind))) {
      malformed("{} is a home, but its storage does not live from step to step in an arena",
                subject_.label(id));
    }
    if (residency.is_home && residency.tier == kDiskTier) {
      malformed("{} is a home on the disk; homes lie on the device or the host",
                subject_.label(id));
    }
  }

  // Between steps a storage is in one place: one home or one external residency.
  void check_singles() {
    std::vector<ResidencyId> single(subject_.program.storages.size());
    for (size_t i = 0; i < subject_.plan.residencies.size(); ++i) {
      const Residency& residency = subject_.plan.residencies[i];
      if (!is_in(residency.storage, single)) continue;
      if (!residency.is_home && residency.tier != kExternalTier) continue;
      ResidencyId& first = single[residency.storage.index()];
      if (first.is_none()) {
        first = ResidencyId(i);
      } else {
        malformed("{}: residency {} is a home or external residency of this storage already",
                  subject_.label(ResidencyId(i)), first.value());
      }
    }
  }

  void check_action(ActionRef ref) {
    const Action& action = subject_.action(ref);
    for (const ActionRef wait : action.waits) check_wait(ref, wait);
    for (const ResidencyId released : action.releases) {
      if (!is_in(released, subject_.plan.residencies)) {
        malformed("{} releases residency {}, which does not exist", subject_.label(ref),
                  released.value());
      }
    }
    if (action.kind == Action::Kind::Run) {
      check_run(ref, action.run);
    } else if (action.kind == Action::Kind::Copy) {
      check_copy(ref, action.copy);
    } else {
      malformed("{} has the unknown kind {}", subject_.label(ref), static_cast<int>(action.kind));
    }
  }

  void check_wait(ActionRef ref, ActionRef wait) {
    const auto lane = static_cast<int>(wait.lane);
    const bool is_lane = lane >= 0 && lane < kLaneCount;
    const bool is_there = is_lane && wait.position >= 0 &&
                          static_cast<size_t>(wait.position) < subject_.plan.lane(wait.lane).size();
    if (is_there) return;
    malformed("{} waits for position {} of lane {}, which does not exist", subject_.label(ref),
              wait.position, lane);
  }

  void check_run(ActionRef ref, const Run& run) {
    if (ref.lane != Lane::Compute) {
      malformed("{} runs an op; only the compute lane does", subject_.label(ref));
    }
    if (!is_in(run.op, subject_.program.ops)) {
      malformed("{} runs op {}; the program has {}", subject_.label(ref), run.op.value(),
                subject_.program.ops.size());
      return;
    }
    const std::vector<Form>& forms = subject_.program.ops[run.op.index()].forms;
    if (run.form < 0 || static_cast<size_t>(run.form) >= forms.size()) {
      malformed("{} runs form {} of op {}, which has {}", subject_.label(ref), run.form,
                run.op.value(), forms.size());
      return;
    }
    const Form& form = forms[static_cast<size_t>(run.form)];
    if (run.reads.size() != form.reads.size() || run.writes.size() != form.writes.size() ||
        run.request_offset_bytes.size() != form.requests.size()) {
      malformed("{} has {} reads, {} writes and {} request offsets; its form has {}, {} and {}",
                subject_.label(ref), run.reads.size(), run.writes.size(),
                run.request_offset_bytes.size(), form.reads.size(), form.writes.size(),
                form.requests.size());
      return;
    }
    for (size_t i = 0; i < run.reads.size(); ++i) {
      const bool may_be_none = form.reads[i].kind == ReadKind::ShapeOnly;
      if (run.reads[i].is_none() && may_be_none) continue;
      check_operand(ref, run.reads[i], form.reads[i].storage);
    }
    for (size_t i = 0; i < run.writes.size(); ++i) {
      const bool is_operand = check_operand(ref, run.writes[i], form.writes[i].storage);
      if (is_operand && subject_.residency(run.writes[i]).code != Code::None) {
        malformed("{} writes {}, which is coded", subject_.label(ref),
                  subject_.label(run.writes[i]));
      }
    }
    check_requests(ref, run, form);
  }

  bool check_operand(ActionRef ref, ResidencyId operand, StorageId storage) {
    if (!is_in(operand, subject_.plan.residencies)) {
      malformed("{} needs a residency of storage {}; residency {} does not exist",
                subject_.label(ref), storage.value(), operand.value());
      return false;
    }
    const Residency& residency = subject_.residency(operand);
    if (residency.storage == storage) return true;
    malformed("{} needs a residency of storage {}; residency {} is of storage {}",
              subject_.label(ref), storage.value(), operand.value(), residency.storage.value());
    return false;
  }

  void check_requests(ActionRef ref, const Run& run, const Form& form) {
    for (size_t i = 0; i < form.requests.size(); ++i) {
      const Request& request = form.requests[i];
      const int64_t offset_bytes = run.request_offset_bytes[i];
      if (request.output.is_none()) {
        if (!add_bytes(request.size_bytes)) return;
        if (offset_bytes < 0 || offset_bytes > kMostBytes) {
          malformed("{}: request {} is at offset {}", subject_.label(ref), i, offset_bytes);
        }
        continue;
      }
      for (size_t w = 0; w < form.writes.size(); ++w) {
        if (form.writes[w].storage != request.output) continue;
        const ResidencyId output = run.writes[w];
        if (!is_in(output, subject_.plan.residencies)) continue;
        const int64_t expected =
            subject_.is_external(output) ? -1 : subject_.residency(output).offset_bytes;
        if (offset_bytes == expected) continue;
        malformed("{}: request {} is at offset {}, but it becomes {} at offset {}",
                  subject_.label(ref), i, offset_bytes, subject_.label(output), expected);
      }
    }
  }

  void check_copy(ActionRef ref, const Copy& copy) {
    for (const ResidencyId side : {copy.source, copy.target}) {
      if (is_in(side, subject_.plan.residencies)) continue;
      malformed("{} copies residency {}, which does not exist", subject_.label(ref), side.value());
      return;
    }
    const bool is_same_storage =
        subject_.residency(copy.source).storage == subject_.residency(copy.target).storage;
    if (!is_same_storage || copy.source == copy.target) {
      malformed("{} must copy between two residencies of one storage", subject_.label(ref));
      return;
    }
    check_way(ref, copy);
  }

  // Copies on the compute lane are of external storages, so none reaches the disk.
  void check_way(ActionRef ref, const Copy& copy) {
    const TierId source = subject_.residency(copy.source).tier;
    const TierId target = subject_.residency(copy.target).tier;
    const bool is_right = [&] {
      switch (ref.lane) {
        case Lane::Compute:
          return source != kDiskTier && target != kDiskTier;
        case Lane::Evict:
          return source == kDeviceTier && target == kHostTier;
        case Lane::Prefetch:
          return source == kHostTier && target == kDeviceTier;
        case Lane::DiskWrite:
          return source == kDeviceTier && target == kDiskTier;
        case Lane::DiskRead:
          return source == kDiskTier && target == kDeviceTier;
      }
      return false;
    }();
    if (is_right) return;
    malformed("{} is from tier {} to tier {}; this lane does not copy that way",
              subject_.label(ref), source.value(), target.value());
  }

  const Subject& subject_;
  Faults& faults_;
  int64_t total_bytes_ = 0;
};

}  // namespace

void check_shape(const Subject& subject, Faults& faults) { ShapeCheck(subject, faults).run(); }

}  // namespace fitstep::verifier
