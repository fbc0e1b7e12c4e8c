// Order: a better order of the same ops.
//
//   given      bwd3 bwd2 bwd1 | upd3 upd2 upd1       three gradients live at once
//   ordered    bwd3 upd3 bwd2 upd2 bwd1 upd1         one
//
// Updates, and small ops that feed nothing else, run as soon as they can. Among other ops the given
// order stands, except that one which frees more than it takes goes in front of one that takes more
// than it frees: so a weight gradient, which ends a saved activation, goes in front of the data
// gradient of its layer.
//
// What must stay in order stays: a read behind the write of its version and in front of the next
// one (unless it looks at the shape only), writes of one storage, draws from one generator.
#pragma once

#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

// Every op once. The given order itself, wherever with all kept that has no higher peak and, if the
// peaks are equal, does not hold more for longer.
std::vector<OpId> make_order(const Program& program);

// That one, then the others that were considered, none of them twice.
std::vector<std::vector<OpId>> make_orders(const Program& program);

// Whether `order` holds every op once and keeps all versions right.
bool is_valid_order(const Program& program, const std::vector<OpId>& order);

}  // namespace fitstep
