// Executes a plan on contents, in one order that its waits allow.
//
// Any such order gives the same result, because races are faults: by happens-before a read must
// come after the last write, a write and a release after all earlier accesses. For each lane only
// the latest read is kept: the lane's order covers earlier reads.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/plan/verify_parts.h"
#include "fitstep/program/program.h"

namespace fitstep::verifier {
namespace {

constexpr int32_t kNothing = -1;

// The content of a residency.
struct State {
  int32_t version = kNothing;
  bool is_written = false;  // In this step, by `writer`.
  ActionRef writer;
  std::array<int32_t, kLaneCount> readers = nobody();  // By lane: the last since the write.

  static std::array<int32_t, kLaneCount> nobody() {
    std::array<int32_t, kLaneCount> none{};
    none.fill(kNothing);
    return none;
  }
};

class Execution {
 public:
  Execution(const Subject& subject, const Order& order, Faults& faults)
      : subject_(subject),
        order_(order),
        faults_(faults),
        states_(subject.plan.residencies.size()),
        lives_(subject.plan.residencies.size()),
        run_count_(subject.program.ops.size(), 0) {
    for (size_t i = 0; i < states_.size(); ++i) {
      const ResidencyId id(i);
      if (is_there_always(id) && subject.storage(id).has_content_at_start) {
        states_[i].version = 0;
      }
    }
  }

  std::vector<Life> run() {
    for (const ActionRef ref : order_.sequence()) {
      if (faults_.is_full()) break;
      const Action& action = subject_.action(ref);
      if (action.kind == Action::Kind::Run) {
        run_op(ref, action.run);
      } else {
        run_copy(ref, action.copy);
      }
      for (const ResidencyId released : action.releases) release(ref, released);
    }
    check_end();
    return std::move(lives_);
  }

 private:
  bool is_there_always(ResidencyId id) const {
    return subject_.residency(id).is_home || subject_.is_external(id);
  }

  bool is_generator(ResidencyId id) const {
    return subject_.storage(id).kind == StorageKind::Generator;
  }

  bool is_over_before(ActionRef earlier, ActionRef now) const {
    return earlier == now || order_.ends_before(earlier, now);
  }

  void run_op(ActionRef ref, const Run& run) {
    const Form& form = subject_.form(run);
    check_instance(ref, run, form);
    for (size_t i = 0; i < run.reads.size(); ++i) {
      if (form.reads[i].kind != ReadKind::ShapeOnly) read_operand(ref, run.reads[i], form.reads[i]);
    }
    for (size_t i = 0; i < run.writes.size(); ++i) {
      check_generator_place(ref, form, run.writes[i]);
      check_in_place(ref, run, form, i);
      write(ref, run.writes[i], form.writes[i].version);
    }
  }

  // The first run must do all that the op does; later runs must use a form that may run again.
  void check_instance(ActionRef ref, const Run& run, const Form& form) {
    if (!form.has_equal_bits) {
      faults_.add(FaultKind::MissingOp, "{} computes other bits than the default form",
                  subject_.label(ref));
    }
    int32_t& count = run_count_[run.op.index()];
    ++count;
    const Form& standard = subject_.program.ops[run.op.index()].forms.front();
    if (count == 1 && form.writes.size() != standard.writes.size()) {
      faults_.add(FaultKind::MissingOp,
                  "{} is the op's first run and writes {} of the {} storages that the op writes",
                  subject_.label(ref), form.writes.size(), standard.writes.size());
    }
    if (count > 1 && !form.is_pure && !form.restores_generator) {
      faults_.add(FaultKind::MissingOp, "{} is run {} of the op, in a form that must run only once",
                  subject_.label(ref), count);
    }
  }

  // A draw reads the generator itself; only a restoring form may read a copy of its state.
  void check_generator_place(ActionRef ref, const Form& form, ResidencyId operand) {
    if (!is_generator(operand) || form.restores_generator || subject_.is_external(operand)) return;
    faults_.add(FaultKind::WrongGenerator,
                "{} draws from {}, which is only a copy of the generator", subject_.label(ref),
                subject_.label(operand));
  }

  void read_operand(ActionRef ref, ResidencyId operand, const Read& read) {
    check_generator_place(ref, subject_.form(subject_.action(ref).run), operand);
    const Residency& residency = subject_.residency(operand);
    if (residency.tier != kDeviceTier && residency.tier != kExternalTier) {
      faults_.add(FaultKind::NotResident, "{} reads {} on tier {}; ops read the device",
                  subject_.label(ref), subject_.label(operand), residency.tier.value());
      return;
    }
    if (!access(ref, operand)) return;
    const int32_t version = states_[operand.index()].version;
    if (version != read.version) {
      faults_.add(wrong_version(operand), "{} reads version {} of {}, which holds version {}",
                  subject_.label(ref), read.version, subject_.label(operand), version);
    } else if (residency.code != Code::None) {
      faults_.add(FaultKind::WrongVersion, "{} reads {}, which is coded", subject_.label(ref),
                  subject_.label(operand));
    }
  }

  FaultKind wrong_version(ResidencyId id) const {
    return is_generator(id) ? FaultKind::WrongGenerator : FaultKind::WrongVersion;
  }

  // Notes a read. Adds a fault if the residency holds nothing, and returns false.
  bool access(ActionRef ref, ResidencyId id) {
    State& state = states_[id.index()];
    const Life& life = lives_[id.index()];
    if (life.is_released) {
      faults_.add(FaultKind::NotResident, "{} reads {}, which {} has released", subject_.label(ref),
                  subject_.label(id), subject_.label(life.release));
      return false;
    }
    if (state.version == kNothing) {
      faults_.add(FaultKind::NotResident, "{} reads {}, which holds nothing yet",
                  subject_.label(ref), subject_.label(id));
      return false;
    }
    if (state.is_written && !order_.ends_before(state.writer, ref)) {
      faults_.add(FaultKind::NotResident, "{} reads {}, but does not wait for {}, which writes it",
                  subject_.label(ref), subject_.label(id), subject_.label(state.writer));
    }
    int32_t& reader = state.readers[static_cast<size_t>(ref.lane)];
    reader = std::max(reader, ref.position);
    return true;
  }

  // A kernel that writes in place has one tensor for input and output, so both are one residency. A
  // kernel that reads another version of its output must read another residency.
  void check_in_place(ActionRef ref, const Run& run, const Form& form, size_t written) {
    const Write& target = form.writes[written];
    for (size_t i = 0; i < form.reads.size(); ++i) {
      const Read& read = form.reads[i];
      if (read.storage != target.storage || read.kind == ReadKind::ShapeOnly) continue;
      const bool is_in_place = read.version == target.version - 1;
      if (is_in_place == (run.reads[i] == run.writes[written])) continue;
      faults_.add(FaultKind::WrongVersion, "{} reads version {} in {} and writes version {} to {}",
                  subject_.label(ref), read.version, subject_.label(run.reads[i]), target.version,
                  subject_.label(run.writes[written]));
    }
  }

  void write(ActionRef ref, ResidencyId target, int32_t version) {
    const Residency& residency = subject_.residency(target);
    State& state = states_[target.index()];
    Life& life = lives_[target.index()];
    const bool is_run = subject_.action(ref).kind == Action::Kind::Run;
    if (is_run && residency.tier != kDeviceTier && residency.tier != kExternalTier) {
      faults_.add(FaultKind::NotResident, "{} writes {} on tier {}; ops write the device",
                  subject_.label(ref), subject_.label(target), residency.tier.value());
    }
    if (life.is_released) {
      faults_.add(FaultKind::NotResident, "{} writes {}, which {} has released",
                  subject_.label(ref), subject_.label(target), subject_.label(life.release));
      return;
    }
    check_no_access_beside(ref, target, "writes");
    if (!life.is_born && !is_there_always(target)) {
      life.is_born = true;
      life.birth = ref;
    }
    state = State{.version = version, .is_written = true, .writer = ref};
  }

  // All earlier reads and writes of `id` must have ended.
  void check_no_access_beside(ActionRef ref, ResidencyId id, const char* verb) {
    const State& state = states_[id.index()];
    if (state.is_written && !is_over_before(state.writer, ref)) {
      faults_.add(FaultKind::WrongVersion, "{} {} {}, but does not wait for {}, which writes it",
                  subject_.label(ref), verb, subject_.label(id), subject_.label(state.writer));
    }
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const ActionRef reader{Lane{lane}, state.readers[static_cast<size_t>(lane)]};
      if (reader.position == kNothing || is_over_before(reader, ref)) continue;
      faults_.add(FaultKind::WrongVersion, "{} {} {}, but does not wait for {}, which reads it",
                  subject_.label(ref), verb, subject_.label(id), subject_.label(reader));
    }
  }

  void run_copy(ActionRef ref, const Copy& copy) {
    if (!access(ref, copy.source)) return;
    write(ref, copy.target, states_[copy.source.index()].version);
  }

  void release(ActionRef ref, ResidencyId id) {
    Life& life = lives_[id.index()];
    if (is_there_always(id)) {
      faults_.add(FaultKind::NotACycle, "{} releases {}, which must be there at the end",
                  subject_.label(ref), subject_.label(id));
      return;
    }
    if (!life.is_born) {
      faults_.add(FaultKind::NotResident, "{} releases {}, which is not there yet",
                  subject_.label(ref), subject_.label(id));
      return;
    }
    if (life.is_released) {
      faults_.add(FaultKind::NotResident, "{} releases {}, which {} has released",
                  subject_.label(ref), subject_.label(id), subject_.label(life.release));
      return;
    }
    check_no_access_beside(ref, id, "releases");
    life.is_released = true;
    life.release = ref;
  }

  void check_end() {
    for (size_t i = 0; i < run_count_.size(); ++i) {
      if (run_count_[i] > 0 || subject_.program.ops[i].is_optional) continue;
      faults_.add(FaultKind::MissingOp, "op {} {} never runs", i, subject_.program.ops[i].name);
    }
    const std::vector<int32_t> last = last_versions(subject_.program);
    std::vector<bool> has_place(last.size(), false);  // A home or an external residency.
    for (size_t i = 0; i < states_.size(); ++i) {
      const ResidencyId id(i);
      const size_t storage = subject_.residency(id).storage.index();
      if (is_there_always(id)) {
        has_place[storage] = true;
        check_last(id, last[storage]);
      } else if (!lives_[i].is_born) {
        faults_.add(FaultKind::Malformed, "{} is never written", subject_.label(id));
      } else if (!lives_[i].is_released) {
        faults_.add(FaultKind::NotACycle, "{} is never released", subject_.label(id));
      }
    }
    for (size_t i = 0; i < has_place.size(); ++i) {
      const Storage& storage = subject_.program.storages[i];
      const bool needs_place =
          is_external(storage.kind) ? last[i] > 0 : storage.is_persistent && storage.size_bytes > 0;
      if (!needs_place || has_place[i]) continue;
      faults_.add(FaultKind::NotACycle, "storage {} {} has no home and is not external", i,
                  storage.name);
    }
  }

  void check_last(ResidencyId id, int32_t last) {
    const int32_t version = states_[id.index()].version;
    if (last == 0 && !subject_.storage(id).has_content_at_start) return;  // It never had content.
    if (version == last) return;
    faults_.add(is_generator(id) ? FaultKind::WrongGenerator : FaultKind::NotACycle,
                "{} holds version {} at the end; the program leaves version {}", subject_.label(id),
                version, last);
  }

  const Subject& subject_;
  const Order& order_;
  Faults& faults_;
  std::vector<State> states_;       // By residency.
  std::vector<Life> lives_;         // By residency.
  std::vector<int32_t> run_count_;  // By op.
};

}  // namespace

std::vector<Life> check_contents(const Subject& subject, const Order& order, Faults& faults) {
  return Execution(subject, order, faults).run();
}

}  // namespace fitstep::verifier
