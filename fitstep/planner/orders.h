// Orders: in which order the ops run, and the planner for one such order.
//
//   program --> order --> plan in it --> far above its bound? --> plan in other orders
//
// `order` makes a first order in which few bytes are live at once. `in_order` plans in one order.
// `reorder` improves an order of a small program by moving single ops. `try_orders` returns the
// fastest plan of all orders. The floor holds for every order, the bound for every order tried.
#pragma once

#include "fitstep/planner/orders/in_order.h"    // IWYU pragma: export
#include "fitstep/planner/orders/order.h"       // IWYU pragma: export
#include "fitstep/planner/orders/reorder.h"     // IWYU pragma: export
#include "fitstep/planner/orders/try_orders.h"  // IWYU pragma: export
