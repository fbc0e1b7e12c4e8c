// Bounds: bytes and time that no plan can beat, whatever the plan keeps, drops or copies.
//
//   floor     bytes: homes on the device + the largest working set of one op
//   bound     time: the greatest of the work of every op, the cut bound and the path bound
//
// `needs` lists what every plan has to run and to hold; every bound is computed from it. The cut
// and path bounds add what must be recomputed or copied within a capacity. `order_bounds` takes the
// least bound over several orders of the ops. No bound looks at a plan, so a fault of the planner
// cannot change a bound. The search ends when a plan reaches the bound: that plan is proven
// fastest.
#pragma once

#include "fitstep/planner/bounds/bound.h"         // IWYU pragma: export
#include "fitstep/planner/bounds/floor.h"         // IWYU pragma: export
#include "fitstep/planner/bounds/needs.h"         // IWYU pragma: export
#include "fitstep/planner/bounds/order_bounds.h"  // IWYU pragma: export
