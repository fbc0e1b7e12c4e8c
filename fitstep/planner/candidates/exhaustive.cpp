#include "fitstep/planner/candidates/exhaustive.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int32_t kTinyValues = 24;
constexpr size_t kMostStates = 40'000;  // In all searches of a program together.

using Set = uint32_t;  // Of values with bytes in the arena, one bit each.

// One way to run an op.
struct Run {
  Selection::Step step;
  Tick until = kNever;  // Again: not while a later op is next.
  int64_t time_ps = 0;
  int64_t working_bytes = 0;
  int64_t apart_bytes = 0;  // The same if no output lies where an input was.
  Set reads = 0;
  Set writes = 0;
  Set overwrites = 0;
  Set gives = 0;  // Inputs whose place an output may take.
};

struct State {
  Tick next = 0;
  Set there = 0;
  int64_t most_bytes = 0;
  int32_t before = -1;  // The state it comes from, by ...
  int32_t run = -1;     // ... this run.
};

class Search {
 public:
  explicit Search(const Values& values) : values_(values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const bool has_bytes = values[ValueId(i)].size_bytes > 0;
      bit_of_value_.push_back(has_bytes ? static_cast<int32_t>(size_bytes_.size()) : -1);
      if (has_bytes) size_bytes_.push_back(values[ValueId(i)].size_bytes);
    }
    is_tiny_ = Effort(values.tick_count()).is_tiny() && std::ssize(size_bytes_) <= kTinyValues;
    if (!is_tiny_) return;
    for (Tick tick = 0; tick < values.tick_count(); ++tick) add_runs(tick);
    find_wanted();
  }

  std::vector<Selection> run(int64_t below_bytes) {
    std::vector<Selection> selections;
    while (is_tiny_) {
      const std::optional<int32_t> end = find(below_bytes - 1);
      if (!end) break;
      below_bytes = states_[static_cast<size_t>(*end)].most_bytes;
      selections.push_back(make(*end));
    }
    return selections;
  }

 private:
  Set bit(const ValueId value) const {
    const int32_t bit = bit_of_value_[value.index()];
    return bit < 0 ? 0 : Set{1} << static_cast<uint32_t>(bit);
  }

  int64_t bytes(Set set) const {
    int64_t sum_bytes = 0;
    for (size_t i = 0; i < size_bytes_.size(); ++i) {
      if ((set >> i & 1U) != 0) sum_bytes += size_bytes_[i];
    }
    return sum_bytes;
  }

  void add_runs(Tick tick) {
    for (const Values::Choice& choice : values_.first_forms(tick)) add_run(tick, choice, false);
    for (const Values::Choice& choice : values_.again_forms(tick)) add_run(tick, choice, true);
  }

  void add_run(Tick tick, const Values::Choice& choice, bool is_again) {
    Form form = values_.op_at(tick).forms[static_cast<size_t>(choice.form)];
    Run run{.step = {.tick = tick, .form = choice.form, .is_again = is_again},
            .until = choice.until,
            .time_ps = form.time_ps,
            .working_bytes = working_set_bytes(values_.program(), form)};
    for (const Read& read : form.reads) {
      if (read.kind == ReadKind::ShapeOnly) continue;
      run.reads |= bit(values_.id(read.storage, read.version));
      for (const Write& write : form.writes) {
        if (write.may_take != read.storage) continue;
        run.gives |= bit(values_.id(read.storage, read.version));
      }
    }
    for (Write& write : form.writes) {
      run.writes |= bit(values_.id(write.storage, write.version));
      if (is_in_place(form, write)) {
        run.overwrites |= bit(values_.id(write.storage, write.version - 1));
      }
      write.may_take = StorageId();
    }
    run.apart_bytes = working_set_bytes(values_.program(), form);
    runs_.push_back(run);
  }

  // By op: values that it or one behind it reads, and what may help to make those again.
  void find_wanted() {
    const auto count = static_cast<size_t>(values_.tick_count());
    wanted_.assign(count + 1, 0);
    least_ps_.assign(count + 1, 0);
    for (size_t tick = count; tick-- > 0;) {
      Set& wanted = wanted_[tick];
      wanted = wanted_[tick + 1];
      int64_t least_ps = -1;
      for (const Run& run : runs_) {
        if (run.step.tick != static_cast<Tick>(tick) || run.step.is_again) continue;
        wanted |= run.reads;
        least_ps = least_ps < 0 ? run.time_ps : std::min(least_ps, run.time_ps);
      }
      least_ps_[tick] = least_ps_[tick + 1] + least_ps;
      for (size_t i = runs_.size(); i-- > 0;) {  // Makers come before users.
        const Run& run = runs_[i];
        const bool may_help = run.step.is_again && run.step.tick < static_cast<Tick>(tick);
        if (may_help && (run.writes & wanted) != 0) wanted |= run.reads;
      }
    }
  }

  // The last state of the fastest order of runs within the limit; nothing if there is none, or if
  // it would take too long.
  std::optional<int32_t> find(int64_t limit_bytes) {
    open_ = {};
    best_ps_.clear();
    limit_bytes_ = limit_bytes;
    reach({}, 0);
    while (!open_.empty() && states_.size() < kMostStates) {
      const auto [sum_ps, number] = open_.top();
      open_.pop();
      const State state = states_[static_cast<size_t>(number)];
      const int64_t ps = sum_ps - least_ps_[static_cast<size_t>(state.next)];
      if (state.next == values_.tick_count()) return number;
      if (ps > best_ps_[key(state)]) continue;
      for (size_t i = 0; i < runs_.size(); ++i) {
        if (may_run(runs_[i], state)) leave(runs_[i], static_cast<int32_t>(i), number, ps);
      }
    }
    return std::nullopt;
  }

  bool may_run(const Run& run, const State& state) const {
    if ((state.there & run.reads) != run.reads) return false;
    if (!run.step.is_again) return run.step.tick == state.next;
    const Set missed = wanted_[static_cast<size_t>(state.next)] & ~state.there;
    return run.step.tick < state.next && state.next <= run.until && (run.writes & missed) != 0;
  }

  // To all states behind the run: whatever it has used may stay or go.
  void leave(const Run& run, int32_t run_index, int32_t number, int64_t ps) {
    const State state = states_[static_cast<size_t>(number)];
    const Tick next = state.next + (run.step.is_again ? 0 : 1);
    const Set wanted = wanted_[static_cast<size_t>(next)];
    const Set all = ((state.there & ~run.overwrites) | run.writes) & wanted;
    const Set may_go = (run.reads | run.writes) & all;
    const int64_t others_bytes = bytes(state.there & ~run.reads & ~run.writes);
    for (Set gone = may_go;; gone = (gone - 1) & may_go) {
      const Set there = all & ~gone;
      const bool is_apart = (run.gives & there) != 0;
      const int64_t load_bytes = others_bytes + (is_apart ? run.apart_bytes : run.working_bytes);
      const int64_t most_bytes = std::max({state.most_bytes, load_bytes, bytes(there)});
      if (most_bytes <= limit_bytes_)
        reach({next, there, most_bytes, number, run_index}, ps + run.time_ps);
      if (gone == 0) break;
    }
  }

  void reach(const State& state, int64_t ps) {
    const auto [place, is_new] = best_ps_.try_emplace(key(state), ps);
    if (!is_new && place->second <= ps) return;
    place->second = ps;
    open_.emplace(ps + least_ps_[static_cast<size_t>(state.next)],
                  static_cast<int32_t>(states_.size()));
    states_.push_back(state);
  }

  static uint64_t key(const State& state) {
    return static_cast<uint64_t>(state.next) << 32U | state.there;
  }

  Selection make(int32_t end) const {
    Selection selection = keep_all(values_);
    selection.name = "exhaustive";
    for (int32_t at = end; states_[static_cast<size_t>(at)].run >= 0;) {
      const State& state = states_[static_cast<size_t>(at)];
      selection.steps.push_back(runs_[static_cast<size_t>(state.run)].step);
      at = state.before;
    }
    std::ranges::reverse(selection.steps);
    return selection;
  }

  const Values& values_;
  bool is_tiny_ = false;
  std::vector<int32_t> bit_of_value_;
  std::vector<int64_t> size_bytes_;  // By bit.
  std::vector<Run> runs_;
  std::vector<Set> wanted_;        // By op.
  std::vector<int64_t> least_ps_;  // By op: of it and all behind it.
  int64_t limit_bytes_ = 0;
  std::vector<State> states_;
  std::unordered_map<uint64_t, int64_t> best_ps_;  // By key; looked up only.
  using Entry = std::pair<int64_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

}  // namespace

std::vector<Selection> exhaustive_selections(const Values& values, int64_t below_bytes) {
  return Search(values).run(below_bytes);
}

}  // namespace fitstep
