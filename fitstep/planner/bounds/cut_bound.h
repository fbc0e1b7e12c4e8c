// The cut bound: work before a cut plus work after the cut, for plans that offload, recompute or do
// both.
//
//            begin                  cut                         end
//   compute    |  every op once       | op |  every op once, runs again |
//   evict      |  y bytes leave       |    |                            |
//   prefetch   |                      |    |  y bytes come back         |
//
//   time >= least over y of
//     max(ops before, evicts of y) + op + max(ops after + F(y), prefetches of y)
//
// Why no plan is faster: while the op at the cut runs, its working set is on the device and no
// other value is made. Of the bytes held then and used later, at most capacity - working set are on
// the device. Let y be the others: y bytes have left before the op starts, and y bytes return after
// it ends. F(y), the chain charge with these bytes held on or off the device, is a lower bound of
// the recompute time after the cut. Compute, evict and prefetch are separate lanes, so a side takes
// at least the longest of them. If ops beside copies run at 1/s of their speed, copies of c seconds
// take c x (1 - 1/s) from the side's ops. F is replaced by its tangents, which are all below F. The
// sum of two maxima of lines has its least value at a corner, so the minimum is exact.
//
// The op at the cut runs in one of its forms: the bound is the least over them. Optional ops run on
// either side, so only the sum over both sides counts them; ops do not overlap:
//
//   time >= ops before + op + ops after + F(y) + optional ops
//
// Of the y bytes, those on the host since the step before need no copy down. Those that no op needs
// before the next step need no copy back.
//
// Stretches in a row do not overlap in time, so their bounds add up: one per micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/chain_charge.h"
#include "fitstep/planner/bounds/needs.h"

namespace fitstep {

class CutBounds {
 public:
  CutBounds(const Needs& needs, bool may_recompute);

  struct Best {
    int64_t ps = 0;
    Tick tick = -1;  // The cut that adds most; -1 if no cut adds time.
  };
  // The greatest sum over stretches in a row; each stretch takes its best cut. The bound never
  // falls with less room or slower copies.
  Best at(int64_t room_bytes, const Away& away) const;

 private:
  struct Cut {
    Tick tick = 0;
    Tick op_count = 0;  // Ops in its stretch.
    int64_t front_ps = 0;
    int64_t behind_ps = 0;
    int64_t optional_ps = 0;      // Optional runs for the ops on both sides of the cut.
    std::vector<FormNeed> forms;  // Of the op at the cut.
    int64_t needed_bytes = 0;
    int64_t fixed_bytes = 0;
    int64_t copied_bytes = 0;
    int64_t staying_bytes = 0;
    double runs_ps = 0;
    std::vector<Tariff> tariffs;  // F's tangents.
  };
  struct StretchCuts {  // A stretch with all its cuts.
    size_t from = 0;    // Indices of edges.
    size_t to = 0;
    int64_t once_ps = 0;
    std::vector<Cut> cuts;
  };

  static Cut make_cut(const Needs& needs, const Stretch& stretch, bool may_recompute);
  static int64_t bound_ps(const Cut& cut, int64_t room_bytes, const Away& away);
  static int64_t bound_ps(const Cut& cut, const FormNeed& form, int64_t room_bytes,
                          const Away& away);

  std::vector<Tick> edges_;             // Where stretches begin and end.
  std::vector<StretchCuts> stretches_;  // By `to`.
};

}  // namespace fitstep
