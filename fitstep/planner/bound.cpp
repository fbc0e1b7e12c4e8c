#include "fitstep/planner/bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/scheduler.h"
#include "fitstep/planner/selection.h"
#include "fitstep/planner/space.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// Whether the op's one obligatory run may be in this form: it must do all that the op does.
bool is_usable(const Op& op, const Form& form) {
  return &form == &op.forms[0] ||
         (form.has_equal_bits && form.writes.size() == op.forms[0].writes.size());
}

bool reads_bytes_of(const Form& form, StorageId storage) {
  return std::any_of(form.reads.begin(), form.reads.end(), [&](const Read& read) {
    return read.storage == storage && read.kind != ReadKind::ShapeOnly;
  });
}

// Fine tick at which the write's memory must be there; none if it takes no more bytes.
std::optional<Tick> birth_of(const Program& program, const Form& form, const Write& write) {
  if (has_own_place(program.storages[write.storage.index()])) return std::nullopt;
  if (is_in_place(form, write)) return std::nullopt;
  // It may lie where the input was. Whether that input ends here is not known yet.
  if (!write.may_take.is_none() && reads_bytes_of(form, write.may_take)) return std::nullopt;
  for (const Request& request : form.requests) {
    if (request.output == write.storage) return request_live(form, request).begin;
  }
  return 0;
}

// What it costs to make bytes of one value again, as far as a bound may say.
struct Offer {
  Tick begin = 0;  // Idle during the ticks [begin, end).
  Tick end = 0;
  int64_t size_bytes = 0;
  int64_t recompute_ps = 0;
};

std::vector<Offer> make_offers(const Values& values) {
  std::vector<Offer> offers;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (value.size_bytes == 0 || value.made < 0) continue;
    const int32_t form = values.recompute_form(value.made);
    if (form < 0) continue;
    const Form& maker = values.op_at(value.made).forms[static_cast<size_t>(form)];
    const auto outputs = static_cast<int64_t>(std::max<size_t>(maker.writes.size(), 1));
    Tick last = value.made;
    for (const Tick use : value.uses) {
      if (use > last + 1) {
        offers.push_back({.begin = last + 1,
                          .end = use,
                          .size_bytes = value.size_bytes,
                          .recompute_ps = maker.time_ps / outputs});
      }
      last = use;
    }
  }
  // Cheapest bytes first.
  const auto price = [](const Offer& offer) {
    return static_cast<double>(offer.recompute_ps) / static_cast<double>(offer.size_bytes);
  };
  std::ranges::stable_sort(offers, {}, price);
  return offers;
}

// Least recompute time that frees `excess_bytes` at the tick; nothing if there is not enough.
std::optional<int64_t> cheapest_ps(const std::vector<Offer>& offers, Tick tick,
                                   int64_t excess_bytes) {
  int64_t sum_ps = 0;
  for (const Offer& offer : offers) {
    if (excess_bytes <= 0) break;
    if (tick < offer.begin || offer.end <= tick) continue;
    const int64_t taken_bytes = std::min(excess_bytes, offer.size_bytes);
    const double share = static_cast<double>(taken_bytes) / static_cast<double>(offer.size_bytes);
    sum_ps += static_cast<int64_t>(static_cast<double>(offer.recompute_ps) * share);
    excess_bytes -= taken_bytes;
  }
  if (excess_bytes > 0) return std::nullopt;
  return sum_ps;
}

}  // namespace

int64_t working_set_bytes(const Program& program, const Form& form) {
  std::vector<StorageId> read;
  for (const Read& operand : form.reads) {
    if (operand.kind != ReadKind::ShapeOnly) read.push_back(operand.storage);
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  int64_t read_bytes = 0;
  for (const StorageId storage : read) {
    const Storage& of = program.storages[storage.index()];
    if (!has_own_place(of)) read_bytes += of.size_bytes;
  }
  std::vector<int64_t> change(static_cast<size_t>(sequence_length(form)) + 1, 0);
  for (const Write& write : form.writes) {
    const std::optional<Tick> birth = birth_of(program, form, write);
    if (!birth) continue;
    change[static_cast<size_t>(*birth)] += program.storages[write.storage.index()].size_bytes;
  }
  for (const Request& request : form.requests) {
    if (!request.output.is_none()) continue;
    const Interval live = request_live(form, request);
    change[static_cast<size_t>(live.begin)] += request.size_bytes;
    change[static_cast<size_t>(live.end)] -= request.size_bytes;
  }
  int64_t live_bytes = read_bytes;
  int64_t most_bytes = read_bytes;
  for (const int64_t bytes : change) most_bytes = std::max(most_bytes, live_bytes += bytes);
  return most_bytes;
}

int64_t floor_bytes(const Program& program, const PlanRequest& request,
                    std::vector<Culprit>* culprits) {
  const Homes homes = make_homes(program, request);
  std::vector<Culprit> sets;
  int64_t floor = homes.end_bytes;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    int64_t least_bytes = working_set_bytes(program, program.ops[i].forms[0]);
    for (size_t k = 1; k < program.ops[i].forms.size(); ++k) {
      if (!is_usable(program.ops[i], program.ops[i].forms[k])) continue;
      least_bytes = std::min(least_bytes, working_set_bytes(program, program.ops[i].forms[k]));
    }
    if (least_bytes > 0) floor = std::max(floor, homes.bottom_bytes + least_bytes);
    sets.push_back({.op = OpId(i), .bytes = homes.bottom_bytes + least_bytes});
  }
  if (culprits != nullptr) {
    constexpr size_t kMostCulprits = 8;
    std::ranges::stable_sort(sets, std::greater(), &Culprit::bytes);
    sets.resize(std::min(sets.size(), kMostCulprits));
    *culprits = std::move(sets);
  }
  return floor;
}

int64_t compute_bound_ps(const Program& program, const Machine& machine) {
  int64_t sum_ps = 0;
  for (const Op& op : program.ops) {
    int64_t least_ps = op.forms[0].time_ps;
    for (size_t i = 1; i < op.forms.size(); ++i) {
      if (is_usable(op, op.forms[i])) least_ps = std::min(least_ps, op.forms[i].time_ps);
    }
    sum_ps += least_ps + machine.launch_ps;
  }
  return sum_ps;
}

TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves) {
  constexpr Tick kCuts = 200;
  const int64_t compute_ps = compute_bound_ps(values.program(), machine);
  TimeBound bound{.ps = compute_ps, .name = "compute (any order, moves: recompute, warm start)"};
  const std::optional<Schedule> kept = make_schedule(values, keep_all(values));
  if (!kept || moves.offload) return bound;
  const Space space = make_space(values, *kept);
  const std::vector<Offer> offers = make_offers(values);
  const Tick stride = std::max<Tick>(1, values.tick_count() / kCuts);
  for (Tick tick = 0; tick < values.tick_count(); tick += stride) {
    // With everything kept there is one instance per op.
    const int64_t excess_bytes =
        homes.size_bytes + space.live_bytes[static_cast<size_t>(tick)] - capacity_bytes;
    if (excess_bytes <= 0) continue;
    const std::optional<int64_t> extra_ps = cheapest_ps(offers, tick, excess_bytes);
    if (extra_ps && compute_ps + *extra_ps > bound.ps) {
      bound.ps = compute_ps + *extra_ps;
      bound.name = "recompute cut (this order, moves: recompute, warm start)";
    }
  }
  return bound;
}

}  // namespace fitstep
