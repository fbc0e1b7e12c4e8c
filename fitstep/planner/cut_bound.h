// The cut bound: what happens in front of a cut and what happens behind it, for plans that offload,
// make values again, or both.
//
//            begin                     cut                        end
//   compute    |  every op once         |  every op once, runs again |
//   evict      |  y bytes leave         |                            |
//   prefetch   |                        |  y bytes come back         |
//
//   time >= least over y of  max(ops in front, evicts of y) + max(ops behind + F(y), prefetches of
//   y)
//
// Why no plan is faster: call y what is held off the device when the op at the cut starts. Those
// bytes have left before, and what of them is used returns behind. At most capacity - working set
// is held on the device, so F(y), the chain charge for so many bytes held in all, is below the time
// of the runs again behind the cut. Compute, evict and prefetch are lanes of their own, so a side
// of the cut takes at least the longest of them. F is replaced by its tangents, all below it, and
// the sum of two maxima of lines has its least value at a corner, so the minimum is exact.
//
// Sections in a row do not overlap in time, so their bounds add up: one per micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fitstep/planner/away.h"
#include "fitstep/planner/chain_charge.h"
#include "fitstep/planner/needs.h"

namespace fitstep {

// What is common to all cuts of one question.
struct Setting {
  int64_t room_bytes = 0;  // Of the arena, homes left out.
  Away away;
  bool may_recompute = true;
};

// How many prices of held bytes are tried. Any of them is valid; more come closer.
struct Effort {
  size_t prices = 4;
  size_t refinements = 0;
};

// Time from the start of op `section.begin` to the start of op `section.end`, from below.
int64_t section_bound_ps(const Needs& needs, const Setting& setting, const Section& section,
                         Effort effort);

struct CutBound {
  int64_t ps = 0;
  Tick tick = -1;  // The cut that contributes most; -1 where no cut does.
};

// The best sum over sections in a row, with the best cut in each, among sampled ones.
CutBound cut_bound(const Needs& needs, const Setting& setting);

}  // namespace fitstep
