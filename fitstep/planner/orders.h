// Orders: the same ops one behind another in other ways, and the planner for one of these.
//
//   program --> order --> plan in it --> far above its bound? --> plan in other orders
//
// The first order is made so that little lives at once. `in_order` plans the program in one order.
// For small programs another order is looked for near the best. The fastest plan of all orders is
// the answer. Floor and bounds hold for every order.
#pragma once

#include "fitstep/planner/orders/in_order.h"    // IWYU pragma: export
#include "fitstep/planner/orders/order.h"       // IWYU pragma: export
#include "fitstep/planner/orders/reorder.h"     // IWYU pragma: export
#include "fitstep/planner/orders/try_orders.h"  // IWYU pragma: export
