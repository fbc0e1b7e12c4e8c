// The path bound: how early each op can start when nothing is made again, for plans that offload.
//
//   start(q) >= end(k) + prefetch time of what is live at k, needed up to q, and does not fit at k
//   start(q) >= end(k) + evict time of what is made from k on, idle at q, and does not fit at q
//
// Why no plan is faster: while op k runs, at most the room minus its working set is on the device
// of what is idle; the rest of what ops up to q need comes back between op k's end and op q's
// start. And what is made from k on is on the host no sooner than k has ended, so what of it is not
// on the device at q has left in between. Intervals in a row do not overlap, so such steps add up
// to paths, and the longest path is a bound. Steps start at sampled ticks only.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/needs.h"

namespace fitstep {

// Time of the step from below; at least that of every op once.
int64_t path_bound_ps(const Needs& needs, int64_t room_bytes, const Away& away);

}  // namespace fitstep
