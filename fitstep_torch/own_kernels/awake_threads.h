// Wakes PyTorch's worker threads before a measured run, because in a step they are awake.
//
//   step      |op|op|op|          threads wait for the next op on their processors
//   profile   |op| ... |op|       threads sleep while inputs are made and results hashed; on a
//                                 busy machine waking up takes a time slice
#pragma once

namespace fitstep::torch_side {

// Returns when all worker threads run. Takes microseconds on an idle machine.
void wake_threads();

}  // namespace fitstep::torch_side
