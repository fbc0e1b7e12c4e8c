#include "fitstep/report/held_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

// 1. Every span tells which blocks open in it, and where in its kernel; blocks close at its end.
// 2. All of these events are sorted by time. At equal times, earlier spans free before later ones
// open.
class BlockFinder {
 public:
  BlockFinder(const Program& program, const Plan& plan, const Timeline& timeline)
      : program_(program),
        plan_(plan),
        timeline_(timeline),
        block_of_(plan.residencies.size(), -1) {}

  std::vector<HeldBlock> run() {
    for (size_t i = 0; i < plan_.residencies.size(); ++i) {
      if (plan_.residencies[i].is_home) open_residency(ResidencyId(i), {.position = -1}, {});
    }
    const size_t homes = blocks_.size();
    std::vector<Span> spans = timeline_.spans;
    std::ranges::stable_sort(spans, {}, [](const Span& span) {
      return std::tuple(span.begin_ps, span.end_ps, span.lane, span.position);
    });
    for (size_t i = 0; i < spans.size(); ++i) visit(spans[i], static_cast<int64_t>(i));
    for (HeldBlock& block : blocks_) {
      if (block.ended_by.position < 0) block.end_ps = timeline_.total_ps;
    }
    number_events();
    std::ranges::sort(blocks_.begin() + static_cast<int64_t>(homes), blocks_.end(), {},
                      &HeldBlock::opened);
    return std::move(blocks_);
  }

 private:
  // When a block opens or closes: time, the span's rank, and the place in the span.
  struct Moment {
    int64_t time_ps = 0;
    int64_t rank = -1;  // Twice the span's place, +1 for its begin and +2 for its end.
    int64_t place = 0;

    auto operator<=>(const Moment&) const = default;
  };

  struct Event {
    Moment when;
    bool opens = false;
    size_t block = 0;
  };

  // A block that opens inside a kernel, in positions of its sequence of requests. Scratch without
  // an interval stays until the op ends.
  struct Opening {
    Interval within;
    ResidencyId written;  // None: scratch.
    int64_t offset_bytes = 0;
    int64_t size_bytes = 0;
    ResidencyId taken;  // The input whose bytes it takes, if any.
  };

  void visit(const Span& span, int64_t place) {
    const Action& action = plan_.lane(span.lane)[static_cast<size_t>(span.position)];
    const ActionRef ref{.lane = span.lane, .position = span.position};
    const Moment begin{.time_ps = span.begin_ps, .rank = 2 * place + 1};
    const Moment end{.time_ps = span.end_ps, .rank = 2 * place + 2};
    if (action.kind == Action::Kind::Copy) {
      open_residency(action.copy.target, ref, begin);
    } else {
      run_kernel(openings_of(action), ref, begin, end);
    }
    for (const ResidencyId released : action.releases) close_residency(released, ref, end);
  }

  std::vector<Opening> openings_of(const Action& action) const {
    const Run& run = action.run;
    const Form& form = program_.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
    const bool is_ordered = std::ranges::none_of(form.requests, &Request::is_any_thread);
    std::vector<Opening> found;
    for (size_t i = 0; i < form.writes.size(); ++i) {
      Opening one{.written = run.writes[i], .taken = taken_by(action, form, i)};
      for (const Request& request : form.requests) {
        if (is_ordered && request.output == form.writes[i].storage) one.within = request.live;
      }
      found.push_back(one);
    }
    for (size_t i = 0; i < form.requests.size(); ++i) {
      const Request& request = form.requests[i];
      const bool is_none = request.size_bytes == 0 || (is_ordered && is_empty(request.live));
      if (is_none || !request.output.is_none()) continue;
      found.push_back({.within = is_ordered ? request.live : Interval{},
                       .offset_bytes = run.request_offset_bytes[i],
                       .size_bytes = request.size_bytes});
    }
    return found;
  }

  // The input of which output `written` takes the bytes; none: it has bytes of its own.
  ResidencyId taken_by(const Action& action, const Form& form, size_t written) const {
    const StorageId taken = form.writes[written].may_take;
    const ResidencyId output = action.run.writes[written];
    if (taken.is_none() || output.is_none()) return {};
    for (const ResidencyId released : action.releases) {
      const Residency& input = plan_.residencies[released.index()];
      const bool has_its_bytes =
          input.storage == taken && input.tier == kDeviceTier && input.size_bytes > 0 &&
          input.offset_bytes == plan_.residencies[output.index()].offset_bytes;
      if (has_its_bytes && released != output) return released;
    }
    return {};
  }

  void run_kernel(const std::vector<Opening>& openings, ActionRef ref, Moment begin, Moment end) {
    Tick last = 0;
    for (const Opening& one : openings) last = std::max({last, one.within.begin, one.within.end});
    const auto at = [&](Tick tick, bool opens) {
      const int64_t done_ps = (end.time_ps - begin.time_ps) / (last + 1) * tick;
      return Moment{begin.time_ps + done_ps, begin.rank, 2 * tick + (opens ? 1 : 0)};
    };
    for (const Opening& one : openings) {
      const Moment when = at(one.within.begin, true);
      if (!one.taken.is_none()) close_residency(one.taken, ref, at(one.within.begin, false));
      if (!one.written.is_none()) {
        open_residency(one.written, ref, when);
      } else if (one.size_bytes > 0) {
        const size_t block = open({}, one.offset_bytes, one.size_bytes, ref, when);
        close(block, ref, is_empty(one.within) ? end : at(one.within.end, false));
      }
    }
  }

  void open_residency(ResidencyId id, ActionRef by, Moment when) {
    if (id.is_none()) return;
    const Residency& residency = plan_.residencies[id.index()];
    const bool is_held = residency.tier == kDeviceTier && residency.size_bytes > 0;
    if (!is_held || block_of_[id.index()] >= 0) return;
    block_of_[id.index()] = static_cast<int64_t>(
        open(residency.storage, residency.offset_bytes, residency.size_bytes, by, when));
  }

  // Bytes of a home belong to it during the whole step.
  void close_residency(ResidencyId id, ActionRef by, Moment when) {
    if (block_of_[id.index()] < 0 || plan_.residencies[id.index()].is_home) return;
    const auto block = static_cast<size_t>(block_of_[id.index()]);
    if (blocks_[block].ended_by.position < 0) close(block, by, when);
  }

  size_t open(StorageId storage, int64_t offset, int64_t size, ActionRef by, Moment when) {
    events_.push_back({.when = when, .opens = true, .block = blocks_.size()});
    blocks_.push_back({.storage = storage,
                       .begun_by = by,
                       .offset_bytes = offset,
                       .size_bytes = size,
                       .begin_ps = when.time_ps});
    return blocks_.size() - 1;
  }

  void close(size_t block, ActionRef by, Moment when) {
    events_.push_back({.when = when, .opens = false, .block = block});
    blocks_[block].ended_by = by;
    blocks_[block].end_ps = when.time_ps;
  }

  void number_events() {
    std::ranges::stable_sort(events_, {}, &Event::when);
    for (HeldBlock& block : blocks_) block.closed = static_cast<int32_t>(events_.size());
    for (size_t i = 0; i < events_.size(); ++i) {
      HeldBlock& block = blocks_[events_[i].block];
      (events_[i].opens ? block.opened : block.closed) = static_cast<int32_t>(i);
    }
  }

  const Program& program_;
  const Plan& plan_;
  const Timeline& timeline_;
  std::vector<int64_t> block_of_;  // By residency; -1: not open yet.
  std::vector<HeldBlock> blocks_;
  std::vector<Event> events_;
};

}  // namespace

std::vector<HeldBlock> held_blocks(const Program& program, const Plan& plan,
                                   const Timeline& timeline) {
  return BlockFinder(program, plan, timeline).run();
}

}  // namespace fitstep
