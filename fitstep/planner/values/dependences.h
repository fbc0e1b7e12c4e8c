// Dependences: which op must run behind which, by versions. A read comes behind the write of its
// version and in front of the next write, unless it looks at the shape only; writes of one storage
// come in order, and so do ops that must not move.
//
//   write (s,1) --> read (s,1) --> write (s,2) --> read (s,2)
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

struct Dependences {
  std::vector<std::vector<int32_t>> followers;  // By op; an op may occur more than once.
  std::vector<int32_t> blocked_by;              // By op: in how many lists of followers it stands.
  std::vector<std::vector<int32_t>> consumers;  // By op: ops that read the bytes it writes.
};

Dependences find_dependences(const Program& program);

}  // namespace fitstep
