// The search: walks down a ladder of targets and keeps the candidates that nothing beats.
//
//   seconds
//      |                   x                 floor x 1.04^k are the targets, from keep-all down to
//      |          x     .                    what cannot be reached any more; x are kept, what lies
//      |  x  .                               right of and above another point is not
//      +--------------------------> bytes
//    floor  ...   targets   ...   keep-all
//
// In the whole frontier of a program of more than about 10,000 ops the rungs are farther apart, and
// only the best of each is kept.
//
// The ladder does not depend on the capacity asked, only its part that is walked does: it ends at
// the first target within the capacity that was reached, and with offload, which takes longer, it
// begins at the first one within the capacity.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

// Candidates, all placed: bytes fall, time rises. Never empty.
std::vector<Candidate> search(const Task& task);

}  // namespace fitstep
