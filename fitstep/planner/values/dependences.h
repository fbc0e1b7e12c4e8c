// Dependences: which op must run after which. A read runs after the write of its version and before
// the next write, unless it looks at the shape only. Writes of one storage keep their order, and so
// do ops that must not move.
//
//   write (s,1) --> read (s,1) --> write (s,2) --> read (s,2)
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

struct Dependences {
  std::vector<std::vector<int32_t>> followers;  // By op; may list one follower more than once.
  std::vector<int32_t> blocked_by;              // By op: how many entries of `followers` name it.
  std::vector<std::vector<int32_t>> consumers;  // By op: ops that read the bytes it writes.
};

Dependences find_dependences(const Program& program);

}  // namespace fitstep
