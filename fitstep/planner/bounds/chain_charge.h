// The chain charge: the least cost, in time and in bytes held, of having the values of one stretch
// of the program ready in time.
//
//   begin                     cut                          end
//     |  f0   f1   f2   f3   f4 | f5  ...   b3   b2   b1    |
//         a0   a1   a2   a3  ......idle across the cut......    needed after it
//
// A value that is idle at the cut and needed before `end` is either held across the cut (on the
// device or on the host), or its maker runs again after the cut. This run reads values. Values that
// are themselves idle and needed are paid for already. The others are called dead: each must be
// held too, or recomputed, and so on. With a price per byte held, the least sum of run times and
// held bytes is a minimum cut in this network, and any flow is a lower bound of it:
//
//   needed value --price x bytes--> its maker --time of the run--> sink
//                                     | read by it, dead: price x bytes of that value
//                                     v
//                                   maker of that value --time of the run--> sink
//
// Runs are shared: an op is paid once for all values that need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds/needs.h"

namespace fitstep {

struct Stretch {
  Tick begin = 0;  // Values made before this tick cost nothing.
  Tick cut = 0;    // The cut is while the op at this tick runs.
  Tick end = 0;    // Values needed only after this tick do not count.
};

// The price of a byte held across the cut, and the least sum at this price.
struct Tariff {
  double ps_per_byte = 0;
  double sum_ps = 0;  // Whole picoseconds, rounded down.
};

class ChainCharge {
 public:
  // With `may_recompute` false all needed values have to be held.
  ChainCharge(const Needs& needs, const Stretch& stretch, bool may_recompute);

  // Bytes idle at the cut and needed in the stretch.
  int64_t needed_bytes() const { return needed_bytes_; }
  // Of those, bytes that no op can recompute after the cut.
  int64_t fixed_bytes() const { return fixed_bytes_; }
  // Of the needed bytes: those that need no copy down in this step, and those that need none back.
  int64_t copied_bytes() const { return copied_bytes_; }
  int64_t staying_bytes() const { return staying_bytes_; }
  // Time of all ops that may run again after the cut, each once.
  double runs_ps() const;

  // For any plan that holds at most h bytes across the cut, sum_ps - ps_per_byte x h is a lower
  // bound of the time of all recomputing between cut and end.
  Tariff at_price(double ps_per_byte);

  // At most `count` guesses, rising, of prices at which plans start to drop more bytes.
  std::vector<double> likely_prices(size_t count) const;

 private:
  struct Behind;
  struct Arc {
    int32_t value = 0;  // In dead_bytes_.
    int32_t maker = 0;
  };
  struct Run {
    double time_ps = 0;  // Infinite: it cannot run again, so its outputs have to be held.
    size_t first_arc = 0;
  };
  struct Source {
    int32_t maker = 0;
    double size_bytes = 0;
  };

  void find_sources(const Needs& needs, const Stretch& stretch);
  void find_wanted(const Behind& behind, Tick begin);
  void add_runs(const Behind& behind, Tick begin);
  void find_room(double ps_per_byte);
  void push_on(size_t run, double excess_ps);

  int64_t needed_bytes_ = 0;
  double mobile_bytes_ = 0;  // Of the needed bytes: there at the start, so no op makes them.
  int64_t fixed_bytes_ = 0;
  int64_t copied_bytes_ = 0;
  int64_t staying_bytes_ = 0;
  std::vector<Run> runs_;  // Makers before readers; the last entry marks the end.
  std::vector<Arc> arcs_;
  std::vector<Source> sources_;
  std::vector<double> dead_bytes_;
  std::vector<int32_t> run_of_tick_;
  // For one price:
  std::vector<double> room_ps_;    // By run: most flow that it and its inputs may take.
  std::vector<double> inflow_ps_;  // By run.
  std::vector<double> left_ps_;    // By dead value.
};

// price x bytes in whole picoseconds: price_down is never above the true product, price_up never
// below.
double price_down(double ps_per_byte, double bytes);
double price_up(double ps_per_byte, double bytes);

}  // namespace fitstep
