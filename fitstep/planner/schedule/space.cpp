#include "fitstep/planner/schedule/space.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/plan/layout.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/schedule/scheduler.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// The upper bytes of a block that are unused from a tick on: a smaller output took the address.
struct Rest {
  int32_t block = 0;
  Tick begin = 0;
  int64_t size_bytes = 0;
};

class SpaceMaker {
 public:
  SpaceMaker(const Values& values, const Schedule& schedule, bool takes_larger)
      : values_(values), schedule_(schedule), takes_larger_(takes_larger) {}

  Space run() {
    find_fine_ticks();
    add_stays();
    share_addresses();
    add_scratch();
    measure();
    space_.first_tick = pause_;
    return std::move(space_);
  }

  // Whether some output could take the address of a larger input.
  bool has_larger() const { return has_larger_; }

 private:
  const Form* form_of(const Instance& instance) const {
    if (instance.kind == Instance::Kind::SaveGenerator) return nullptr;
    return &values_.op_at(instance.tick).forms[static_cast<size_t>(instance.form)];
  }

  // By instance: the last slot of its pause.
  std::vector<int32_t> last_slots() const {
    std::vector<int32_t> slots(schedule_.instances.size(), 0);
    const auto count = [&](Moment moment, int32_t slot) {
      if (slot > 0) slots[index(moment / 2)] = std::max(slots[index(moment / 2)], slot);
    };
    for (const Stay& stay : schedule_.stays) {
      count(stay.begin, stay.begin_slot);
      count(stay.end, stay.end_slot);
    }
    return slots;
  }

  void find_fine_ticks() {
    Tick tick = 0;
    const std::vector<int32_t> slots = last_slots();
    sequence_.reserve(schedule_.instances.size());
    for (const Instance& instance : schedule_.instances) {
      const int32_t pause_ticks = schedule_.has_transfers() ? 1 + slots[pause_.size()] : 0;
      pause_.push_back(tick);
      tick += pause_ticks;
      start_.push_back(tick);
      const Form* form = form_of(instance);
      sequence_.push_back(form == nullptr ? Sequence() : Sequence(*form));
      tick += sequence_.back().length();
    }
    pause_.push_back(tick);
    start_.push_back(tick);
  }

  Tick tick_of(Moment moment, int32_t slot) const {
    const auto instance = static_cast<size_t>(moment / 2);
    return moment % 2 == 0 ? pause_[instance] + slot : start_[instance];
  }

  // An output that the kernel requests begins at the request; other stays at their first instance.
  Tick birth(const Stay& stay, int32_t stay_index) const {
    if (stay.begin != kNone) return tick_of(stay.begin, stay.begin_slot);
    const auto first = static_cast<size_t>(stay.first);
    const Instance& instance = schedule_.instances[first];
    const Form* form = form_of(instance);
    const auto is_among = [&](std::span<const int32_t> operands) {
      return std::ranges::find(operands, stay_index) != operands.end();
    };
    const bool is_made =
        is_among(schedule_.writes(instance)) && !is_among(schedule_.reads(instance));
    if (form == nullptr || !is_made) return start_[first];
    for (const Request& request : form->requests) {
      if (request.output == stay.storage)
        return start_[first] + sequence_[first].live(request).begin;
    }
    return start_[first];
  }

  void add_stays() {
    space_.block_of_stay.assign(schedule_.stays.size(), kNone);
    space_.blocks.reserve(2 * schedule_.stays.size());
    for (size_t i = 0; i < schedule_.stays.size(); ++i) {
      const Stay& stay = schedule_.stays[i];
      const int64_t size_bytes = values_.storage(stay.storage).size_bytes;
      if (stay.has_own_place || size_bytes == 0) continue;
      if (stay.tier != kDeviceTier) {
        std::vector<Block>& below =
            stay.tier == kHostTier ? space_.host_blocks : space_.disk_blocks;
        space_.block_of_stay[i] = static_cast<int32_t>(below.size());
        below.push_back({.size_bytes = size_bytes, .live = {.begin = stay.begin, .end = stay.end}});
        continue;
      }
      if (stay.first == kNone) continue;
      const Tick end =
          stay.end != kNone ? tick_of(stay.end, stay.end_slot) : pause_[index(stay.last) + 1];
      space_.block_of_stay[i] = static_cast<int32_t>(space_.blocks.size());
      space_.blocks.push_back(
          {.size_bytes = size_bytes,
           .live = {.begin = birth(stay, static_cast<int32_t>(i)), .end = end}});
    }
  }

  // Merges an output's block into the block of the input whose address it takes. A smaller output
  // keeps the input's upper bytes occupied, so `takes_larger_` decides for all of these at once.
  void share_addresses() {
    for (size_t i = 0; i < schedule_.instances.size(); ++i) {
      const Instance& instance = schedule_.instances[i];
      const Form* form = form_of(instance);
      if (form == nullptr) continue;
      for (size_t k = 0; k < form->writes.size(); ++k) {
        if (form->writes[k].may_take.is_none()) continue;
        const int32_t given = input_to_give(*form, instance, static_cast<int32_t>(i), k);
        if (given != kNone) merge(given, schedule_.writes(instance)[k], pause_[i + 1]);
      }
    }
  }

  // The stay whose address the k-th output of the instance takes; kNone for none.
  int32_t input_to_give(const Form& form, const Instance& instance, int32_t position,
                        size_t k) const {
    const auto output = static_cast<size_t>(schedule_.writes(instance)[k]);
    if (space_.block_of_stay[output] == kNone || schedule_.stays[output].first != position) {
      return kNone;
    }
    const std::span<const int32_t> reads = schedule_.reads(instance);
    int32_t given = kNone;
    for (size_t i = 0; i < form.reads.size(); ++i) {
      if (form.reads[i].storage != form.writes[k].may_take || reads[i] == kNone) continue;
      if (given != kNone) return kNone;  // Read twice: we do not know which bytes end when.
      given = reads[i];
    }
    if (given == kNone) return kNone;
    const auto input = static_cast<size_t>(given);
    const int32_t block = space_.block_of_stay[input];
    if (block == kNone || schedule_.stays[input].last != position) return kNone;
    // With another end, a copy follows or another output has taken the address already.
    if (space_.blocks[index(block)].live.end != pause_[index(position) + 1]) return kNone;
    if (schedule_.stays[input].end != kNone) return kNone;
    const int64_t given_bytes = values_.storage(schedule_.stays[input].storage).size_bytes;
    const int64_t size_bytes = values_.storage(schedule_.stays[output].storage).size_bytes;
    if (size_bytes < given_bytes) has_larger_ = true;
    const bool may_take = size_bytes == given_bytes || (takes_larger_ && size_bytes < given_bytes);
    return may_take && taken_.insert_once(block, position) ? given : kNone;
  }

  // The input ends at the tick; bytes that the output does not cover are unused from then on.
  void merge(int32_t given, int32_t taker, Tick end) {
    const auto size_bytes = [&](int32_t stay) {
      return values_.storage(schedule_.stays[static_cast<size_t>(stay)].storage).size_bytes;
    };
    const int32_t block = space_.block_of_stay[static_cast<size_t>(given)];
    int32_t& of_taker = space_.block_of_stay[static_cast<size_t>(taker)];
    Block& old = space_.blocks[static_cast<size_t>(of_taker)];
    Block& merged = space_.blocks[static_cast<size_t>(block)];
    merged.live.end = std::max(merged.live.end, old.live.end);
    const int64_t rest_bytes = size_bytes(given) - size_bytes(taker);
    if (rest_bytes > 0) rests_.push_back({.block = block, .begin = end, .size_bytes = rest_bytes});
    old.size_bytes = 0;  // Stays in the list, so that other indices remain valid.
    of_taker = block;
  }

  void add_scratch() {
    for (size_t i = 0; i < schedule_.instances.size(); ++i) {
      space_.first_request.push_back(static_cast<int32_t>(space_.block_of_request.size()));
      const Form* form = form_of(schedule_.instances[i]);
      if (form == nullptr) continue;
      for (const Request& request : form->requests) {
        const bool is_scratch = request.output.is_none() && request.size_bytes > 0;
        space_.block_of_request.push_back(is_scratch ? static_cast<int32_t>(space_.blocks.size())
                                                     : kNone);
        if (!is_scratch) continue;
        const Interval live = sequence_[i].live(request);
        space_.blocks.push_back(
            {.size_bytes = request.size_bytes,
             .live = {.begin = start_[i] + live.begin, .end = start_[i] + live.end}});
      }
    }
    space_.first_request.push_back(static_cast<int32_t>(space_.block_of_request.size()));
  }

  // The bytes that change at each tick: blocks that begin or end, and the rests in them.
  struct Changes {
    std::vector<int64_t> born, gone, rest;
  };

  Changes changes() const {
    const std::vector<int64_t> none(index(start_.back()) + 1, 0);
    Changes result{.born = none, .gone = none, .rest = none};
    for (const Block& block : space_.blocks) {
      result.born[index(block.live.begin)] += block.size_bytes;
      result.gone[index(block.live.end)] += block.size_bytes;
    }
    for (const Rest& rest : rests_) {
      result.rest[index(rest.begin)] += rest.size_bytes;
      result.rest[index(space_.blocks[index(rest.block)].live.end)] -= rest.size_bytes;
    }
    return result;
  }

  void measure() {
    const auto [born, gone, rest] = changes();
    int64_t live_bytes = 0;
    int64_t rest_bytes = 0;
    for (size_t i = 0; i < schedule_.instances.size(); ++i) {
      int64_t most_bytes = 0;
      for (Tick tick = pause_[i]; tick < pause_[i + 1]; ++tick) {
        live_bytes -= gone[index(tick)];
        // A block that begins in the pause counts in it; the instance's outputs do not count yet.
        if (tick == pause_[i]) {
          const int64_t born_bytes = tick < start_[i] ? born[index(tick)] : 0;
          space_.boundary_bytes.push_back(live_bytes + born_bytes);
        }
        live_bytes += born[index(tick)];
        rest_bytes += rest[index(tick)];
        if (tick < start_[i]) continue;
        most_bytes = std::max(most_bytes, live_bytes);
        space_.storages_peak_bytes = std::max(space_.storages_peak_bytes, live_bytes - rest_bytes);
      }
      space_.live_bytes.push_back(most_bytes);
      space_.peak_bytes = std::max(space_.peak_bytes, most_bytes);
    }
  }

  // Remembers for each block the last instance at which an output took its address.
  struct Taken {
    std::vector<int32_t> position_of_block;
    bool insert_once(int32_t block, int32_t position) {
      const auto index = static_cast<size_t>(block);
      if (index >= position_of_block.size()) position_of_block.resize(index + 1, kNone);
      if (position_of_block[index] == position) return false;
      position_of_block[index] = position;
      return true;
    }
  };

  static size_t index(int64_t i) { return static_cast<size_t>(i); }

  const Values& values_;
  const Schedule& schedule_;
  Space space_;
  std::vector<Tick> pause_;         // By instance, and one more: where its pause begins, if any ...
  std::vector<Tick> start_;         // ... and where its own ticks begin.
  std::vector<Sequence> sequence_;  // By instance.
  mutable Taken taken_;
  bool takes_larger_ = false;
  mutable bool has_larger_ = false;
  std::vector<Rest> rests_;
};

}  // namespace

Sequence::Sequence(const Form& form) {
  for (const Request& request : form.requests) {
    length_ = std::max({length_, request.live.begin + 1, request.live.end});
    is_any_thread_ |= request.is_any_thread;
  }
}

Interval Sequence::live(const Request& request) const {
  if (is_any_thread_) return {.begin = 0, .end = length_};
  if (!request.output.is_none()) return {.begin = request.live.begin, .end = length_};
  return {.begin = request.live.begin, .end = std::max(request.live.end, request.live.begin + 1)};
}

Space make_space(const Values& values, const Schedule& schedule) {
  SpaceMaker maker(values, schedule, false);
  Space space = maker.run();
  constexpr size_t kQuick = 5'000;  // Instances; with more, a second space takes too long.
  if (!maker.has_larger() || schedule.instances.size() > kQuick) return space;
  SpaceMaker other_maker(values, schedule, true);
  Space other = other_maker.run();
  return other.peak_bytes < space.peak_bytes ? std::move(other) : std::move(space);
}

}  // namespace fitstep
