// The path bound: how early each op can start in plans that offload and recompute nothing.
//
//   start(q) >= end(k) + prefetch time of bytes idle at k and needed up to q that do not fit at k
//   start(q) >= end(k) + evict time of bytes made from k on and idle at q that do not fit at q
//
// Why no plan is faster: while op k runs, the device has room for idle bytes of at most room -
// working set. The other bytes that ops up to q need come back between the end of k and the start
// of q. Bytes made from k on reach the host only after k has ended; those that do not fit on the
// device at q have left between k and q. Intervals in a row do not overlap, so such waits add up to
// paths, and the longest path is a bound. Waits start at sampled ticks only.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/needs.h"

namespace fitstep {

// A lower bound of the step's time; at least the time of every op once.
int64_t path_bound_ps(const Needs& needs, int64_t room_bytes, const Away& away);

}  // namespace fitstep
