#include "tests/support/all_plans.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/plan_state.h"

namespace fitstep::all_plans {
namespace {

class Search {
 public:
  Search(const Values& values, const Machine& machine, const AllPlans& question)
      : values_(values), machine_(machine), question_(question) {
    for (size_t i = 0; i < values.size(); ++i) {
      bit_of_value_.push_back(-1);
      const Value& value = values[ValueId(i)];
      const bool has_bytes = value.size_bytes > 0 && value.made >= 0;
      if (!has_bytes && !is_mobile(value.storage)) continue;
      bit_of_value_.back() = static_cast<int32_t>(size_bytes_.size());
      size_bytes_.push_back(values.storage(value.storage).size_bytes);
    }
    FITSTEP_CHECK(size_bytes_.size() <= 12 && values.tick_count() <= 15, "too large to try all");
    for (Tick tick = 0; tick < values.tick_count(); ++tick) add_variants(tick);
    FITSTEP_CHECK(variants_.size() < 64, "too many forms to try all");
    find_mobile();
    find_wanted();
    least_seconds_.assign(static_cast<size_t>(values.tick_count()) + 1, 0);
    for (auto tick = static_cast<size_t>(values.tick_count()); tick-- > 0;) {
      int64_t least = 15;
      for (const Variant& variant : variants_) {
        const bool is_first = variant.tick == static_cast<Tick>(tick) && !variant.is_again;
        if (is_first) least = std::min(least, variant.seconds);
      }
      least_seconds_[tick] = least_seconds_[tick + 1] + least;
    }
    if (machine.tiers.size() > 1 && machine.tiers[1].capacity_bytes > 0) {
      host_bytes_ = machine.tiers[1].capacity_bytes;
    }
  }

  // The best over all places in which mobile storages may start: device, host, both.
  LeastTime run() {
    LeastTime least{.is_known = true};
    size_t starts = 1;
    for (size_t i = 0; i < mobile_.size(); ++i) starts *= 3;
    for (size_t start = 0; start < starts; ++start) {
      State state;
      end_ = {};
      for (size_t i = 0, rest = start; i < mobile_.size(); ++i, rest /= 3) {
        if (rest % 3 != 1) state.device |= mobile_[i].first;
        if (rest % 3 != 1) end_.device |= mobile_[i].last;
        if (rest % 3 != 0) state.host |= mobile_[i].first;
        if (rest % 3 != 0) end_.host |= mobile_[i].last;
      }
      const LeastTime from_here = run_from(state);
      least.is_known = least.is_known && from_here.is_known;
      if (from_here.ps && (!least.ps || *from_here.ps < *least.ps)) least.ps = from_here.ps;
    }
    return least.is_known ? least : LeastTime{};
  }

 private:
  LeastTime run_from(const State& start) {
    best_.clear();
    states_.clear();
    open_ = {};
    if (bytes(start.host) <= host_bytes_) reach(start, 0);
    while (!open_.empty()) {
      const auto [sum_seconds, number] = open_.top();
      open_.pop();
      const State state = states_[number];
      const int64_t seconds = sum_seconds - seconds_left(state);
      if (seconds > best_[state.key()]) continue;
      if (is_end(state)) {
        return {.is_known = true, .ps = seconds * kPicosecondsPerSecond};
      }
      if (states_.size() > question_.most_states) return {};
      start_runs(state, seconds);
      if (question_.moves.offload) start_copies(state, seconds);
      drop(state, seconds);
      wait(state, seconds);
    }
    return {.is_known = true};
  }

  struct Mobile {
    Set first = 0;  // Its version at start.
    Set last = 0;   // ... and at the end.
  };

  bool is_mobile(StorageId storage) const {
    const std::vector<char>& is_mobile = question_.moves.is_mobile;
    return !is_mobile.empty() && is_mobile[storage.index()] != 0;
  }

  void find_mobile() {
    const std::vector<int32_t> last = last_versions(values_.program());
    for (size_t i = 0; i < last.size(); ++i) {
      const StorageId storage(i);
      if (!is_mobile(storage)) continue;
      mobile_.push_back(
          {.first = bit(values_.id(storage, 0)), .last = bit(values_.id(storage, last[i]))});
    }
  }

  bool is_end(const State& state) const {
    return state.next == values_.tick_count() && state.seconds == 0 && state.evict.seconds == 0 &&
           state.prefetch.seconds == 0 && (end_.device & ~state.device) == 0 &&
           (end_.host & ~state.host) == 0;
  }

  static int64_t whole_seconds(int64_t ps) {
    FITSTEP_CHECK(ps % kPicosecondsPerSecond == 0 && ps / kPicosecondsPerSecond <= 15,
                  "times to try all are few whole seconds");
    return ps / kPicosecondsPerSecond;
  }

  void add_variants(Tick tick) {
    const Op& op = values_.op_at(tick);
    for (const Form& form : op.forms) {
      Variant variant{.tick = tick,
                      .seconds = whole_seconds(form.time_ps + machine_.launch_ps),
                      .working_bytes = working_set_bytes(values_.program(), form)};
      bool stays_inside = true;
      for (const Read& read : form.reads) {
        const ValueId value = values_.id(read.storage, read.version);
        const bool is_data = read.kind != ReadKind::ShapeOnly;
        if (is_data && bit_of_value_[value.index()] >= 0) variant.reads |= bit(value);
        if (is_data && values_.has_own_place(read.storage) && !is_mobile(read.storage)) {
          variant.until = std::min(variant.until, values_[value].destroyed);
        }
      }
      for (const Write& write : form.writes) {
        const ValueId value = values_.id(write.storage, write.version);
        if (bit_of_value_[value.index()] >= 0) variant.writes |= bit(value);
        stays_inside = stays_inside && !values_.has_own_place(write.storage);
      }
      variant.working_bytes += mobile_bytes(form);
      if (is_usable(op, form)) variants_.push_back(variant);
      variant.is_again = true;
      most_working_bytes_ = std::max(most_working_bytes_, variant.working_bytes);
      const bool may_repeat = form.is_pure && form.has_equal_bits && stays_inside;
      if (may_repeat && question_.moves.recompute) variants_.push_back(variant);
    }
  }

  // Bytes of mobile storages that the form reads or writes.
  int64_t mobile_bytes(const Form& form) const {
    std::vector<StorageId> touched;
    for (const Read& read : form.reads) {
      if (read.kind != ReadKind::ShapeOnly) touched.push_back(read.storage);
    }
    for (const Write& write : form.writes) touched.push_back(write.storage);
    std::ranges::sort(touched);
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    int64_t sum_bytes = 0;
    for (const StorageId storage : touched) {
      if (is_mobile(storage)) sum_bytes += values_.storage(storage).size_bytes;
    }
    return sum_bytes;
  }

  Set bit(ValueId value) const {
    return Set{1} << static_cast<uint32_t>(bit_of_value_[value.index()]);
  }

  int64_t bytes(Set set) const {
    int64_t sum_bytes = 0;
    for (size_t i = 0; i < size_bytes_.size(); ++i) {
      if ((set >> i & 1U) != 0) sum_bytes += size_bytes_[i];
    }
    return sum_bytes;
  }

  // With what a prefetch under way will bring.
  static Set taken(const State& state) {
    return state.prefetch.seconds > 0 ? state.device | Set{1} << state.prefetch.value
                                      : state.device;
  }

  bool fits(const State& state) const {
    if (state.seconds == 0) return bytes(taken(state)) <= question_.room_bytes;
    const Variant& variant = variants_[state.variant];
    return bytes(taken(state) & ~variant.reads) + variant.working_bytes <= question_.room_bytes;
  }

  // Of the compute lane, if nothing runs again from here on.
  int64_t seconds_left(const State& state) const {
    const bool is_first = state.seconds > 0 && !variants_[state.variant].is_again;
    return state.seconds + least_seconds_[state.next + (is_first ? 1U : 0U)];
  }

  // By op: values that it or one behind it reads, and what may help to make those again.
  void find_wanted() {
    Set last = 0;
    for (const Mobile& mobile : mobile_) last |= mobile.last;
    wanted_.assign(static_cast<size_t>(values_.tick_count()) + 1, last);
    for (auto tick = static_cast<size_t>(values_.tick_count()); tick-- > 0;) {
      Set& wanted = wanted_[tick];
      wanted = wanted_[tick + 1];
      for (const Variant& variant : variants_) {
        if (variant.tick == static_cast<Tick>(tick)) wanted |= variant.reads;
      }
      for (size_t i = variants_.size(); i-- > 0;) {
        const Variant& variant = variants_[i];
        const bool may_help = variant.is_again && variant.tick < static_cast<Tick>(tick);
        if (may_help && (variant.writes & wanted) != 0) wanted |= variant.reads;
      }
    }
  }

  // Values that no later op wants are dropped at once.
  void reach(State state, int64_t seconds) {
    const Set wanted = wanted_[state.next];
    state.device &= wanted | held(state);
    const bool is_coming = state.prefetch.seconds > 0;
    state.host &= wanted | (is_coming ? Set{1} << state.prefetch.value : 0);
    if (!fits(state)) return;
    const auto [place, is_new] = best_.try_emplace(state.key(), seconds);
    if (!is_new && place->second <= seconds) return;
    place->second = seconds;
    open_.emplace(seconds + seconds_left(state), states_.size());
    states_.push_back(state);
  }

  void start_runs(const State& state, int64_t seconds) {
    if (state.seconds > 0) return;
    for (size_t i = 0; i < variants_.size(); ++i) {
      const Variant& variant = variants_[i];
      const bool is_turn = variant.is_again
                               ? variant.tick < state.next && state.next <= variant.until
                               : variant.tick == state.next;
      if (!is_turn || (state.device & variant.reads) != variant.reads) continue;
      const Set missing = wanted_[state.next] & ~state.device;
      if (variant.is_again && (variant.writes & missing) == 0) continue;
      State after = state;
      after.variant = static_cast<uint8_t>(i);
      after.seconds = static_cast<uint8_t>(variant.seconds);
      reach(after, seconds);
    }
  }

  uint8_t copy_seconds(size_t value, const Rate& rate) const {
    const int64_t ps = size_bytes_[value] * (kPicosecondsPerSecond / rate.alone_bytes_per_s);
    return static_cast<uint8_t>(whole_seconds(ps));
  }

  void start_copies(const State& state, int64_t seconds) {
    for (size_t i = 0; i < size_bytes_.size(); ++i) {
      const Set bit = Set{1} << i;
      const bool is_on_device = (state.device & bit) != 0;
      const bool is_on_host = (state.host & bit) != 0;
      if ((wanted_[state.next] & bit) == 0) continue;
      State after = state;
      if (state.evict.seconds == 0 && is_on_device && !is_on_host &&
          bytes(state.host) + size_bytes_[i] <= host_bytes_) {
        after.evict = {static_cast<uint8_t>(i), copy_seconds(i, machine_.links[0].evict)};
        reach(after, seconds);
      } else if (state.prefetch.seconds == 0 && is_on_host && !is_on_device) {
        after.prefetch = {static_cast<uint8_t>(i), copy_seconds(i, machine_.links[0].prefetch)};
        reach(after, seconds);
      }
    }
  }

  // What nothing under way looks at.
  Set held(const State& state) const {
    Set held = 0;
    if (state.seconds > 0) held |= variants_[state.variant].reads;
    if (state.evict.seconds > 0) held |= Set{1} << state.evict.value;
    return held;
  }

  void drop(const State& state, int64_t seconds) {
    for (size_t i = 0; i < size_bytes_.size(); ++i) {
      const Set bit = Set{1} << i;
      State after = state;
      const bool is_short = bytes(wanted_[state.next]) + most_working_bytes_ > question_.room_bytes;
      if (is_short && (state.device & bit & ~held(state)) != 0) {
        after.device &= ~bit;
        reach(after, seconds);
      }
      after = state;
      const bool is_coming = state.prefetch.seconds > 0 && state.prefetch.value == i;
      if ((state.host & bit) != 0 && !is_coming && host_bytes_ < kUnlimited) {
        after.host &= ~bit;
        reach(after, seconds);
      }
    }
  }

  // On to the next end of something.
  void wait(const State& state, int64_t seconds) {
    uint8_t step = 255;
    for (const uint8_t left : {state.seconds, state.evict.seconds, state.prefetch.seconds}) {
      if (left > 0) step = std::min(step, left);
    }
    if (step == 255) return;
    State after = state;
    const auto advance = [&](uint8_t& left) {
      const bool ends = left > 0 && left == step;
      left = static_cast<uint8_t>(left > 0 ? left - step : 0);
      return ends;
    };
    if (advance(after.evict.seconds)) after.host |= Set{1} << after.evict.value;
    if (after.evict.seconds == 0) after.evict.value = 0;
    if (advance(after.prefetch.seconds)) after.device |= Set{1} << after.prefetch.value;
    if (after.prefetch.seconds == 0) after.prefetch.value = 0;
    if (!advance(after.seconds)) {
      reach(after, seconds + step);
      return;
    }
    const Variant& variant = variants_[state.variant];
    after.variant = 0;
    if (!variant.is_again) ++after.next;
    after.device |= variant.writes;
    // An output may lie where an input was, so inputs can go in the same moment.
    const Set may_go = variant.reads & ~variant.writes & ~held(after);
    for (Set gone = may_go;; gone = (gone - 1) & may_go) {
      State left = after;
      left.device &= ~gone;
      reach(left, seconds + step);
      if (gone == 0) break;
    }
  }

  static constexpr int64_t kUnlimited = int64_t{1} << 60;

  const Values& values_;
  const Machine& machine_;
  const AllPlans& question_;
  int64_t most_working_bytes_ = 0;
  int64_t host_bytes_ = kUnlimited;
  std::vector<int32_t> bit_of_value_;
  std::vector<int64_t> size_bytes_;  // By bit.
  std::vector<Mobile> mobile_;
  State end_;  // What has to be where in the end.
  std::vector<Variant> variants_;
  std::vector<Set> wanted_;             // By op.
  std::vector<int64_t> least_seconds_;  // By op: of it and all behind it.
  std::vector<State> states_;
  std::unordered_map<uint64_t, int64_t> best_;  // By key; looked up only.
  using Entry = std::pair<int64_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

}  // namespace
}  // namespace fitstep::all_plans

namespace fitstep {

LeastTime least_time(const Values& values, const Machine& machine, const AllPlans& question) {
  return all_plans::Search(values, machine, question).run();
}

}  // namespace fitstep
