// Bounds: what no plan can beat, in bytes and in time, whatever it keeps, drops or moves.
//
//   floor     homes on the device + the largest working set of one op
//   bound     the greatest of: work of every op, cut, path
//
// Needs are what every plan has to run and to hold; all bounds stand on them. The cut and path
// bounds add what must be made again or moved below a capacity. Order bounds hold for one order of
// the ops. A bound never looks at a plan, so that a fault of the planner cannot hide in it. What
// reaches its bound is proven, and the search ends there.
#pragma once

#include "fitstep/planner/bounds/bound.h"         // IWYU pragma: export
#include "fitstep/planner/bounds/floor.h"         // IWYU pragma: export
#include "fitstep/planner/bounds/needs.h"         // IWYU pragma: export
#include "fitstep/planner/bounds/order_bounds.h"  // IWYU pragma: export
