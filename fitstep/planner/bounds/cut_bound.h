// The cut bound: what happens in front of a cut and what happens behind it, for plans that offload,
// make values again, or both.
//
//            begin                  cut                         end
//   compute    |  every op once       | op |  every op once, runs again |
//   evict      |  y bytes leave       |    |                            |
//   prefetch   |                      |    |  y bytes come back         |
//
//   time >= least over y of
//     max(ops in front, evicts of y) + op + max(ops behind + F(y), prefetches of y)
//
// Why no plan is faster: while the op at the cut runs, its working set is taken and nothing is
// made. Of the bytes that are held then and used later, at most capacity - working set are on the
// device at its start, and as many at its end; so call y those beyond: they have left before its
// start, and y bytes return behind its end. F(y), the chain charge for so many bytes held in all,
// is below the time of the runs again behind. Compute, evict and prefetch are lanes of their own,
// so a side takes at least the longest of them; and where ops run at 1/s of their speed beside
// copies, copies of c seconds take (1 - 1/s) c from the side's ops. F is replaced by its tangents,
// all below it, and the sum of two maxima of lines has its least value at a corner, so the minimum
// is exact.
//
// The op at the cut runs in one of its forms, so the least over these is a bound. Optional ops that
// others need run on either side; what is sure of both sides together, however their runs are
// shared, is that ops do not overlap:
//
//   time >= ops in front + op + ops behind + F(y) + optional ops
//
// Of the y bytes, those on the host since the step before need not leave, and those that nobody
// needs before the next step need not return.
//
// Sections in a row do not overlap in time, so their bounds add up: one per micro-batch.
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
    Tick tick = -1;  // The cut that adds most; -1 where none adds anything.
  };
  // The best sum over sections in a row, with the best of some cuts in each. Never falls when there
  // is less room or copies get dearer.
  Best at(int64_t room_bytes, const Away& away) const;

 private:
  struct Cut {
    Tick tick = 0;
    Tick op_count = 0;  // Of its section.
    int64_t front_ps = 0;
    int64_t behind_ps = 0;
    int64_t optional_ps = 0;      // For other ops than that at the cut, on either side.
    std::vector<FormNeed> forms;  // Of the op at the cut.
    int64_t needed_bytes = 0;
    int64_t fixed_bytes = 0;
    int64_t copied_bytes = 0;
    int64_t staying_bytes = 0;
    double runs_ps = 0;
    std::vector<Tariff> tariffs;  // F's tangents.
  };
  struct Part {       // A section of any cut.
    size_t from = 0;  // Valleys.
    size_t to = 0;
    int64_t once_ps = 0;
    std::vector<Cut> cuts;
  };

  static Cut make_cut(const Needs& needs, const Section& section, bool may_recompute);
  static int64_t bound_ps(const Cut& cut, int64_t room_bytes, const Away& away);
  static int64_t bound_ps(const Cut& cut, const FormNeed& form, int64_t room_bytes,
                          const Away& away);

  std::vector<Tick> valleys_;
  std::vector<Part> parts_;  // By `to`.
};

}  // namespace fitstep
