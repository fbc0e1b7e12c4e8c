#include "fitstep/planner/packing/packing_sets.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/packing/reduced.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr size_t kFew = 3;  // Optional ops, of which every set is tried.

// What one optional op is worth.
struct Worth {
  OpId op;
  int64_t more_ps = 0;      // For it and for those that read what it makes.
  int64_t saved_bytes = 0;  // 0 where somebody needs the whole value later: it stays anyway.
  Tick begin = 0;           // They are saved during these ticks of what must run.
  Tick end = 0;
  double saved_byte_ps = 0;  // Bytes, times how long.

  double price() const { return static_cast<double>(more_ps) / saved_byte_ps; }
};

bool reads_what_it_makes(const Form& packer, const Form& form) {
  return std::ranges::any_of(form.reads, [&](const Read& read) {
    return read.kind != ReadKind::ShapeOnly &&
           std::ranges::count(packer.writes, read.storage, &Write::storage) > 0;
  });
}

bool needs_what_it_reads(const Form& packer, const Form& form) {
  return std::ranges::any_of(form.reads, [&](const Read& read) {
    return read.kind != ReadKind::ShapeOnly &&
           std::ranges::any_of(packer.reads, [&](const Read& input) {
             return input.storage == read.storage && input.version == read.version;
           });
  });
}

// Of the op's forms that do all and read what the packer makes, or do not.
std::optional<int64_t> least_ps(const Op& op, const Form& packer, bool is_packed) {
  std::optional<int64_t> least;
  for (const Form& form : op.forms) {
    if (!is_usable(op, form) || reads_what_it_makes(packer, form) != is_packed) continue;
    if (!least || form.time_ps < *least) least = form.time_ps;
  }
  return least;
}

class Appraiser {
 public:
  Appraiser(const Program& program, const std::vector<OpId>& order, const Machine& machine)
      : program_(program), order_(order), launch_ps_(machine.launch_ps) {
    for (const OpId id : order) {
      const Op& op = program.ops[id.index()];
      tick_.push_back(tick_.empty() ? 0 : tick_.back() + (was_optional_ ? 0 : 1));
      was_optional_ = op.is_optional;
      end_ps_.push_back((end_ps_.empty() ? 0 : end_ps_.back()) +
                        (op.is_optional ? 0 : op.forms[0].time_ps + launch_ps_));
    }
  }

  Worth worth_of(OpId id) const {
    const Form& packer = program_.ops[id.index()].forms[0];
    const auto place = static_cast<size_t>(std::ranges::find(order_, id) - order_.begin());
    Worth worth{.op = id, .more_ps = packer.time_ps + launch_ps_};
    size_t last = place;  // Position of the last that reads what it makes.
    for (size_t i = place + 1; i < order_.size(); ++i) {
      const Op& op = program_.ops[order_[i].index()];
      const std::optional<int64_t> packed_ps = least_ps(op, packer, true);
      if (packed_ps) {
        last = i;
        worth.more_ps += *packed_ps - least_ps(op, packer, false).value_or(*packed_ps);
      } else if (!op.is_optional && needs_what_it_reads(packer, op.forms[0])) {
        return worth;
      }
    }
    const int64_t saved_bytes = read_bytes(packer) - written_bytes(packer);
    if (last == place || saved_bytes <= 0) return worth;
    worth.saved_bytes = saved_bytes;
    worth.begin = tick_[place];
    worth.end = tick_[last] + 1;
    worth.saved_byte_ps =
        static_cast<double>(saved_bytes) * static_cast<double>(end_ps_[last] - end_ps_[place] + 1);
    return worth;
  }

 private:
  int64_t read_bytes(const Form& form) const {
    int64_t bytes = 0;
    for (const Read& read : form.reads) {
      if (!has_own_place(program_.storages[read.storage.index()])) {
        bytes += program_.storages[read.storage.index()].size_bytes;
      }
    }
    return bytes;
  }

  int64_t written_bytes(const Form& form) const {
    int64_t bytes = 0;
    for (const Write& write : form.writes) {
      bytes += program_.storages[write.storage.index()].size_bytes;
    }
    return bytes;
  }

  const Program& program_;
  const std::vector<OpId>& order_;
  const int64_t launch_ps_;
  bool was_optional_ = false;    // The op in front, while positions are counted.
  std::vector<Tick> tick_;       // By position in the order: among what must run.
  std::vector<int64_t> end_ps_;  // By position.
};

std::vector<OpId> ops_of(std::span<const Worth> all) {
  std::vector<OpId> ops;
  ops.reserve(all.size());
  for (const Worth& one : all) ops.push_back(one.op);
  std::ranges::sort(ops);
  return ops;
}

// Bytes during each op that must run, with all kept and nothing packed; homes included.
std::vector<int64_t> live_bytes(const Program& program, const std::vector<OpId>& order,
                                const PlanRequest& request) {
  const Reduced plain = reduce(program, order, {});
  const Values values(plain.program, plain.order);
  const std::optional<Schedule> schedule = make_schedule(values, keep_all(values));
  if (!schedule) return {};
  std::vector<int64_t> live = make_space(values, *schedule).live_bytes;
  const int64_t home_bytes = make_homes(program, request).bottom_bytes;
  for (int64_t& bytes : live) bytes += home_bytes;
  return live;
}

// From the fullest tick on: the cheapest that saves anything there, until nothing is above the
// capacity or no op helps.
std::vector<OpId> enough(const std::vector<Worth>& useful, std::vector<int64_t> live,
                         int64_t capacity_bytes) {
  std::vector<Worth> chosen;
  std::vector<char> is_chosen(useful.size(), 0);
  while (!live.empty()) {
    const auto fullest = std::ranges::max_element(live);
    if (*fullest <= capacity_bytes) break;
    const auto tick = static_cast<Tick>(fullest - live.begin());
    size_t best = useful.size();  // They come cheapest first.
    for (size_t i = useful.size(); i-- > 0;) {
      const bool helps = useful[i].begin <= tick && tick < useful[i].end && is_chosen[i] == 0;
      if (helps) best = i;
    }
    if (best == useful.size()) break;
    is_chosen[best] = 1;
    chosen.push_back(useful[best]);
    for (Tick at = useful[best].begin; at < useful[best].end; ++at) {
      live[static_cast<size_t>(at)] -= useful[best].saved_bytes;
    }
  }
  return ops_of(chosen);
}

}  // namespace

PackingSets packing_sets(const Program& program, const std::vector<OpId>& order,
                         const Machine& machine, const PlanRequest& request) {
  const Appraiser appraiser(program, order, machine);
  const std::vector<OpId> optional = optional_ops(program);
  std::vector<Worth> useful;
  for (const OpId op : optional) {
    const Worth worth = appraiser.worth_of(op);
    if (worth.saved_bytes > 0) useful.push_back(worth);
  }
  std::ranges::stable_sort(useful, {}, &Worth::price);
  PackingSets found{.sets = {{}}};
  const auto add = [&](std::vector<OpId> set) {
    if (std::ranges::find(found.sets, set) == found.sets.end()) {
      found.sets.push_back(std::move(set));
    }
  };
  add(optional);
  if (!has("packing sets")) {
    found.fixed = found.sets.size();
    return found;
  }
  if (optional.size() <= kFew) {
    for (size_t chosen = 1; chosen < size_t{1} << optional.size(); ++chosen) {
      std::vector<OpId> some;
      for (size_t i = 0; i < optional.size(); ++i) {
        if ((chosen >> i & 1U) != 0) some.push_back(optional[i]);
      }
      add(std::move(some));
    }
    found.fixed = found.sets.size();
    return found;
  }
  add(ops_of(useful));
  found.fixed = found.sets.size();
  if (request.capacity_bytes > 0) {
    add(enough(useful, live_bytes(program, order, request), request.capacity_bytes));
  } else {
    add(ops_of(std::span(useful).first(useful.size() / 2)));
  }
  return found;
}

}  // namespace fitstep
