#include "tests/support/brute_force.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/values.h"
#include "tests/support/all_plans.h"
#include "tests/support/brute_runs.h"

namespace fitstep::brute {
namespace {

constexpr size_t kMostValues = 12;

struct Copying {
  int8_t value = 0;
  int8_t seconds = 0;  // Left; 0 where the lane is idle.
};

struct Key {
  uint64_t places = 0;
  uint64_t lanes = 0;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    const uint64_t mixed = (key.places ^ (key.lanes * 0x9e3779b97f4a7c15U)) * 0xff51afd7ed558ccdU;
    return static_cast<size_t>(mixed ^ (mixed >> 32U));
  }
};

// A value stays on the device until an op reads it; then the search chooses whether it stays
// longer.
struct State {
  int8_t next = 0;  // Op whose first run comes next.
  int8_t run = 0;
  int8_t seconds = 0;  // Left of the run; 0 where the lane is idle.
  int8_t scratch = kNone;
  std::array<int8_t, kMostValues> at{};  // By value: its unit, or nowhere.
  Set host = 0;
  Set leaving = 0;  // Waits for the evict lane, or is on it.
  Copying evict;
  Copying prefetch;

  Key key() const {
    Key key{.places = static_cast<uint64_t>(next)};
    for (const int8_t place : at) key.places = key.places << 5U | static_cast<uint64_t>(place + 1);
    const auto append = [&](uint32_t bits, uint64_t number) {
      key.lanes = key.lanes << bits | number;
    };
    append(6, static_cast<uint64_t>(run));
    append(4, static_cast<uint64_t>(seconds));
    append(5, static_cast<uint64_t>(scratch + 1));
    append(12, host);
    append(12, leaving);
    for (const Copying& copy : {evict, prefetch}) {
      append(4, static_cast<uint64_t>(copy.value));
      append(4, static_cast<uint64_t>(copy.seconds));
    }
    return key;
  }

  Set on_device() const {
    Set set = 0;
    for (size_t value = 0; value < kMostValues; ++value) {
      if (at[value] != kNone) set |= set_of(static_cast<int8_t>(value));
    }
    return set;
  }
  Set readable() const {
    return on_device() & ~leaving & ~(prefetch.seconds > 0 ? set_of(prefetch.value) : 0);
  }
};

class Search {
 public:
  Search(const Values& values, const Machine& machine, const BruteForce& question)
      : machine_(machine),
        question_(question),
        runs_(values, machine, question.unit_bytes, question.moves.recompute),
        op_count_(static_cast<int8_t>(values.tick_count())),
        room_units_(static_cast<int8_t>(question.room_bytes / question.unit_bytes)),
        below_seconds_(question.below_ps / kPicosecondsPerSecond) {
    FITSTEP_CHECK(question.room_bytes / question.unit_bytes <= 31, "too much room to try all");
  }

  LeastTime run() {
    State start;
    start.at.fill(kNone);
    reach(start, 0);
    while (!open_.empty()) {
      const size_t number = open_.top().second;
      open_.pop();
      const State state = states_[number];
      const int64_t seconds = seconds_[number];
      if (seconds > best_[state.key()]) continue;
      if (state.next == op_count_ && state.seconds == 0) {
        return {.is_known = true, .ps = seconds * kPicosecondsPerSecond};
      }
      if (states_.size() > question_.most_states) return {};
      if (state.evict.seconds == 0 && state.leaving != 0) {
        start_evict(state, seconds);
        continue;
      }
      if (state.seconds == 0) start_runs(state, seconds);
      if (state.prefetch.seconds == 0) start_prefetch(state, seconds);
      wait(state, seconds);
    }
    return {.is_known = true};
  }

 private:
  // Least seconds from here on; none if a needed value is lost. A needed value that is on no tier
  // is recomputed, and so are its missing inputs.
  std::optional<int64_t> seconds_left(const State& state) const {
    const bool is_first = state.seconds > 0 && !run_of(state).is_again;
    const auto next = static_cast<int8_t>(state.next + (is_first ? 1 : 0));
    int64_t compute_seconds = state.seconds + runs_.least_seconds(next);
    const Set there = state.on_device() | state.host;
    Set needed = runs_.needed(next) & ~there;
    Set made = 0;
    for (int8_t value = runs_.value_count(); value-- > 0;) {  // Makers come before users.
      if (!has(needed, value) || has(made, value)) continue;
      const std::optional<Run> again = runs_.again(value, next);
      if (!again) return std::nullopt;
      compute_seconds += again->seconds;
      made |= again->writes;
      needed |= again->reads & ~there;
    }
    if (question_.moves.recompute) return compute_seconds;
    int64_t prefetch_seconds = static_cast<unsigned char>(state.prefetch.seconds);
    for (int8_t value = 0; value < runs_.value_count(); ++value) {
      const bool is_below = has(runs_.needed(next) & state.host & ~state.on_device(), value);
      if (is_below) prefetch_seconds += copy_seconds(value, machine_.links[0].prefetch);
    }
    return std::max(compute_seconds, prefetch_seconds);
  }

  // Values that no later op wants are dropped at once.
  void reach(State state, int64_t seconds) {
    Set wanted = runs_.wanted(state.next);
    if (state.seconds > 0) wanted |= run_of(state).reads | run_of(state).writes;
    if (state.evict.seconds > 0) wanted |= set_of(state.evict.value);
    if (state.prefetch.seconds > 0) wanted |= set_of(state.prefetch.value);
    for (int8_t value = 0; value < runs_.value_count(); ++value) {
      if (!has(wanted, value)) state.at[index(value)] = kNone;
    }
    state.host &= wanted;
    state.leaving &= wanted;
    const std::optional<int64_t> left_seconds = seconds_left(state);
    if (!left_seconds) return;
    const int64_t least_seconds = seconds + *left_seconds;
    if (below_seconds_ > 0 && least_seconds >= below_seconds_) return;
    const auto [place, is_new] = best_.try_emplace(state.key(), seconds);
    if (!is_new && place->second <= seconds) return;
    place->second = seconds;
    open_.emplace(least_seconds, states_.size());
    states_.push_back(state);
    seconds_.push_back(seconds);
  }

  void start_runs(const State& state, int64_t seconds) {
    const Set there = state.on_device();
    for (size_t i = 0; i < runs_.all().size(); ++i) {
      const Run& run = runs_.all()[i];
      const bool is_turn =
          run.is_again ? run.tick < state.next && state.next <= run.until : run.tick == state.next;
      if (!is_turn || (state.readable() & run.reads) != run.reads) continue;
      if ((run.writes & there) != 0) continue;  // What is made again has been dropped before.
      if (run.is_again && (run.writes & runs_.wanted(state.next)) == 0) continue;
      State after = state;
      after.run = static_cast<int8_t>(i);
      after.seconds = run.seconds;
      place_outputs(after, run, 0, seconds);
    }
  }

  bool is_free(const State& state, int8_t place, int8_t size, int8_t may_cover) const {
    if (place + size > room_units_) return false;
    if (state.scratch != kNone) {
      const int8_t scratch_units = run_of(state).scratch_units;
      if (place < state.scratch + scratch_units && state.scratch < place + size) return false;
    }
    for (int8_t value = 0; value < runs_.value_count(); ++value) {
      const int8_t other = state.at[index(value)];
      if (other == kNone || value == may_cover) continue;
      if (other < place + size && place < other + runs_.units(value)) return false;
    }
    return true;
  }

  // All places of the outputs from the k-th on, then of the scratch.
  void place_outputs(const State& state, const Run& run, size_t k, int64_t seconds) {
    if (k == run.outputs.size()) {
      place_scratch(state, run, seconds);
      return;
    }
    const Output& output = run.outputs[k];
    const int8_t size = runs_.units(output.value);
    State after = state;
    int8_t& place = after.at[index(output.value)];
    if (output.in_place_of != kNone) {
      place = state.at[index(output.in_place_of)];
      place_outputs(after, run, k + 1, seconds);
      return;
    }
    // Of two layouts that mirror each other one is enough.
    const bool is_first = state.on_device() == 0;
    const int32_t last = is_first ? (room_units_ - size + 1) / 2 : room_units_ - size;
    for (place = 0; place <= last; ++place) {
      const bool takes = output.may_take != kNone && state.at[index(output.may_take)] == place &&
                         size <= runs_.units(output.may_take);
      if (!is_free(state, place, size, takes ? output.may_take : kNone)) continue;
      place_outputs(after, run, k + 1, seconds);
    }
  }

  void place_scratch(const State& state, const Run& run, int64_t seconds) {
    if (run.scratch_units == 0) {
      reach(state, seconds);
      return;
    }
    State after = state;
    for (int8_t place = 0; place + run.scratch_units <= room_units_; ++place) {
      if (!is_free(state, place, run.scratch_units, kNone)) continue;
      after.scratch = place;
      reach(after, seconds);
    }
  }

  int8_t copy_seconds(int8_t value, const Rate& rate) const {
    const int64_t size_bytes = runs_.units(value) * question_.unit_bytes;
    return whole_seconds(size_bytes * (kPicosecondsPerSecond / rate.alone_bytes_per_s));
  }

  void start_evict(const State& state, int64_t seconds) {
    for (int8_t value = 0; value < runs_.value_count(); ++value) {
      if (!has(state.leaving, value)) continue;
      State after = state;
      after.evict = {value, copy_seconds(value, machine_.links[0].evict)};
      if (after.evict.seconds == 0) end_evict(after);
      reach(after, seconds);
    }
  }

  static void end_evict(State& state) {
    state.host |= set_of(state.evict.value);
    state.leaving &= ~set_of(state.evict.value);
    state.at[index(state.evict.value)] = kNone;
    state.evict.value = 0;
  }

  void start_prefetch(const State& state, int64_t seconds) {
    const Set below = runs_.wanted(state.next) & state.host & ~state.on_device();
    for (int8_t value = 0; value < runs_.value_count(); ++value) {
      if (!has(below, value)) continue;
      const int8_t size = runs_.units(value);
      State after = state;
      after.prefetch = {value, copy_seconds(value, machine_.links[0].prefetch)};
      if (after.prefetch.seconds == 0) after.prefetch.value = 0;
      int8_t& place = after.at[index(value)];
      for (place = 0; place + size <= room_units_; ++place) {
        if (is_free(state, place, size, kNone)) reach(after, seconds);
      }
    }
  }

  // On to the next end of something.
  void wait(const State& state, int64_t seconds) {
    int8_t step = 127;
    for (const int8_t left : {state.seconds, state.evict.seconds, state.prefetch.seconds}) {
      if (left > 0) step = std::min(step, left);
    }
    if (step == 127) return;
    State after = state;
    const auto ends = [&](int8_t& left) {
      const bool is_busy = left > 0;
      left = static_cast<int8_t>(is_busy ? left - step : 0);
      return is_busy && left == 0;
    };
    if (ends(after.evict.seconds)) end_evict(after);
    if (ends(after.prefetch.seconds)) after.prefetch.value = 0;
    if (!ends(after.seconds)) {
      reach(after, seconds + step);
      return;
    }
    const Run& run = run_of(state);
    end_inputs(run, after);
    after.run = 0;
    after.scratch = kNone;
    if (!run.is_again) ++after.next;
    choose_stays(after, run.reads | run.writes, 0, seconds + step);
  }

  // Inputs under an output end here, and are not looked for below any more.
  void end_inputs(const Run& run, State& state) const {
    for (const Output& output : run.outputs) {
      const int8_t place = state.at[index(output.value)];
      for (const int8_t input : {output.in_place_of, output.may_take}) {
        if (input == kNone || state.at[index(input)] != place) continue;
        state.at[index(input)] = kNone;
        state.host &= ~set_of(input);
      }
    }
  }

  // Everything that a run has used stays where it is, or is dropped, or is evicted.
  void choose_stays(const State& state, Set used, int8_t value, int64_t seconds) {
    if (value == runs_.value_count()) {
      reach(state, seconds);
      return;
    }
    const auto next = static_cast<int8_t>(value + 1);
    choose_stays(state, used, next, seconds);
    if (!has(used & runs_.wanted(state.next) & state.on_device(), value)) return;
    State after = state;
    if (question_.moves.offload && !has(state.host, value)) {
      after.leaving |= set_of(value);
      choose_stays(after, used, next, seconds);
      after = state;
    }
    after.at[index(value)] = kNone;
    choose_stays(after, used, next, seconds);
  }

  static size_t index(int8_t number) { return static_cast<size_t>(number); }
  const Run& run_of(const State& state) const { return runs_.all()[index(state.run)]; }

  const Machine& machine_;
  const BruteForce& question_;
  const Runs runs_;
  int8_t op_count_;
  int8_t room_units_;
  int64_t below_seconds_;
  std::vector<State> states_;
  std::vector<int64_t> seconds_;                    // By state.
  std::unordered_map<Key, int64_t, KeyHash> best_;  // Looked up only.
  using Entry = std::pair<int64_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

}  // namespace
}  // namespace fitstep::brute

namespace fitstep {

LeastTime brute_force(const Values& values, const Machine& machine, const BruteForce& question) {
  return brute::Search(values, machine, question).run();
}

}  // namespace fitstep
