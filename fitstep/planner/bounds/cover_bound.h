// The cover bound: at every tick, what does not fit is away or will be made again, so the spans
// that are idle there and given up have to cover the excess; the cheapest cover bounds the step.
//
//   excess       2 2 3 3 1          least sum of cost x bytes so that every tick is covered
//   span a     |-------|
//   span b         |-------|
//
// Why no plan is faster: each span given up costs a prefetch of its bytes, or a run of its maker in
// between; the first time also an evict. With weights m + e + c = 1 on prefetch lane, evict lane
// and compute lane, the step takes at least the weighted sum of what the lanes do, and the cheapest
// fractional cover at these weights is below that. One run serves one span of each of its outputs,
// so each output carries its part; a value evicted once is charged on one of its spans only.
//
// Cheapest covers are exact, by successive shortest paths: rows differ from their neighbours in few
// places, so the problem is a flow along the ticks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/needs.h"

namespace fitstep {

struct Offer {
  Interval covers;  // Rows.
  int64_t size_bytes = 0;
  int64_t cost = 0;  // Per byte.
};

// Least sum of cost x bytes over shares of the offers that cover each row's bytes; nothing where
// all of them do not. Near-linear for equal costs.
std::optional<double> cheapest_cover(std::span<const Offer> offers,
                                     std::span<const int64_t> row_bytes);

// The same for equal costs of 1, by taking at each row what ends last. In bytes.
std::optional<int64_t> least_cover_bytes(std::span<const Offer> offers,
                                         std::span<const int64_t> row_bytes);

// How much of a second of each copy lane counts; the rest is the compute lane's.
struct LaneWeights {
  double prefetch = 0;
  double evict = 0;
};

class CoverBounds {
 public:
  CoverBounds(const Needs& needs, bool may_recompute);

  // Never falls when there is less room or copies get dearer.
  int64_t at(int64_t room_bytes, const Away& away) const;

 private:
  struct Given {  // A span, in rows.
    Interval covers;
    int64_t size_bytes = 0;
    double run_ps_per_byte = 0;  // Infinite where nothing can make it again.
    bool has_copy = false;
    bool pays_evict = false;
    bool pays_prefetch = true;
  };

  int64_t weighted_ps(const LaneWeights& weights, int64_t room_bytes, const Away& away) const;

  int64_t once_ps_ = 0;
  std::vector<int64_t> row_load_bytes_;
  std::vector<Given> spans_;
};

}  // namespace fitstep
