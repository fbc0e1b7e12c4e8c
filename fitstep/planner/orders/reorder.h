// Reorder: changes an order of a small program so that fewer bytes are above a limit, for less
// time.
//
//   limit   . . .+-+ . . .        . . . . . . .       bytes above the limit have to be recomputed
//             +--+ |         -->   +--+ +--+          or copied
//          +--+    +--+         +--+  +-+  +--+
//
// Moves one op at a time to the best place that its dependences allow, until no move helps. order.h
// has rules for the shape of training steps; this search needs no such rules.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The better order; `order` itself if no move helps or the program is not small.
//
// `limit_bytes`: for the bytes live with everything kept, without storages in their own place.
std::vector<OpId> reorder(const Program& program, std::vector<OpId> order, int64_t limit_bytes);

}  // namespace fitstep
