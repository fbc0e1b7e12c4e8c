// The chain charge: what it costs at least, in time and in bytes held, to have the values of one
// section of the program ready in time.
//
//   begin                     cut                          end
//     |  f0   f1   f2   f3   f4 | f5  ...   b3   b2   b1    |
//         a0   a1   a2   a3  ......idle across the cut......    needed behind it
//
// A value that is idle at the cut and needed before `end` is held there (on the device, or away on
// the host), or its maker runs again in between. That run reads values: those that are idle and
// needed themselves are paid for already, but the dead ones have to be held as well or made again,
// and so on. With a price on each byte held, the least sum of run times and held bytes is a minimum
// cut, and any flow is below it:
//
//   needed value --price x bytes--> its maker --time of the run--> sink
//                                     | read by it, dead: price x bytes of that value
//                                     v
//                                   maker of what it reads --time of the run--> sink
//
// Runs are shared: an op is paid once for all that needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds/needs.h"

namespace fitstep {

struct Section {
  Tick begin = 0;  // What was made before it is there for nothing.
  Tick cut = 0;    // While the op at this tick runs.
  Tick end = 0;    // What is needed at later ticks than this is nobody's concern.
};

// What a byte held across the cut costs, and the least sum at that price.
struct Tariff {
  double ps_per_byte = 0;
  double sum_ps = 0;  // Whole picoseconds, from below.
};

class ChainCharge {
 public:
  // With `may_recompute` false all that is needed has to be held.
  ChainCharge(const Needs& needs, const Section& section, bool may_recompute);

  // Bytes idle at the cut and needed in the section.
  int64_t needed_bytes() const { return needed_bytes_; }
  // Of those, what nothing can make again behind the cut.
  int64_t fixed_bytes() const { return fixed_bytes_; }
  // Of the needed ones, what need not leave in this step, and what need not come back.
  int64_t copied_bytes() const { return copied_bytes_; }
  int64_t staying_bytes() const { return staying_bytes_; }
  // Time of everything that may run again for it, each once.
  double runs_ps() const;

  // sum_ps - ps_per_byte x h is below the time of all runs again between cut and end, for any plan
  // that holds at most h bytes across the cut.
  Tariff at_price(double ps_per_byte);

  // Prices at which it starts to pay to drop more, rising; at most `count`. Guesses, so unproven.
  std::vector<double> likely_prices(size_t count) const;

 private:
  struct Behind;
  struct Arc {
    int32_t value = 0;  // In dead_bytes_.
    int32_t maker = 0;
  };
  struct Run {
    double time_ps = 0;  // Infinite: what it makes has to be held.
    size_t first_arc = 0;
  };
  struct Source {
    int32_t maker = 0;
    double size_bytes = 0;
  };

  void find_sources(const Needs& needs, const Section& section);
  void find_wanted(const Behind& behind, Tick begin);
  void add_runs(const Behind& behind, Tick begin);
  void find_room(double ps_per_byte);
  void push_on(size_t run, double excess_ps);

  int64_t needed_bytes_ = 0;
  double mobile_bytes_ = 0;  // Of those, at start already: nothing makes them.
  int64_t fixed_bytes_ = 0;
  int64_t copied_bytes_ = 0;
  int64_t staying_bytes_ = 0;
  std::vector<Run> runs_;  // Makers come before those that read what they make; one more as end.
  std::vector<Arc> arcs_;
  std::vector<Source> sources_;
  std::vector<double> dead_bytes_;
  std::vector<int32_t> run_of_tick_;
  // Of one price:
  std::vector<double> room_ps_;    // By run: what it and its inputs might take.
  std::vector<double> inflow_ps_;  // By run.
  std::vector<double> left_ps_;    // By dead value.
};

// price x bytes in whole picoseconds, never above (below) the true product.
double price_down(double ps_per_byte, double bytes);
double price_up(double ps_per_byte, double bytes);

}  // namespace fitstep
