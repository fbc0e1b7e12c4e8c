// Reorder: an order near another one in which less lies above a limit, for small programs.
//
//   limit   . . .+-+ . . .        . . . . . . .       what lies above has to be made again or
//   copied,
//             +--+ |         -->   +--+ +--+          so the less, the shorter, the better
//          +--+    +--+         +--+  +-+  +--+
//
// One op at a time moves to where that falls most, as far as what it depends on lets it go, until
// no move is left that helps. Rules (order.h) know the shape of training steps; here nothing has to
// be known.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The order itself where no move helps, and of a program that is not small.
//
// `limit_bytes`: of what is live with everything kept, what has a place of its own left out.
std::vector<OpId> reorder(const Program& program, std::vector<OpId> order, int64_t limit_bytes);

}  // namespace fitstep
