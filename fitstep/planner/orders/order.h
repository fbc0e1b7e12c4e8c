// Order: reorders the ops of a program so that fewer bytes are live at once.
//
//   given      bwd3 bwd2 bwd1 | upd3 upd2 upd1       three gradients live at once
//   ordered    bwd3 upd3 bwd2 upd2 bwd1 upd1         one
//
// Updates, and small ops that feed only updates, run as soon as they can. All other ops stay in the
// given order, with one exception: an op that frees more than it takes may run before an op that
// takes more than it frees. So a weight gradient, which ends a saved activation, runs before the
// data gradient of its layer.
//
// Every order respects find_dependences() (values/dependences.h).
#pragma once

#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

// An order of all ops: the one with the lowest peak when everything is kept; at equal peaks the one
// with the least sum of bytes x time. On ties the given order.
std::vector<OpId> make_order(const Program& program);

// make_order() first, then the other orders that were considered, each once.
std::vector<std::vector<OpId>> make_orders(const Program& program);

// Whether `order` holds every op once and respects find_dependences().
bool is_valid_order(const Program& program, const std::vector<OpId>& order);

}  // namespace fitstep
