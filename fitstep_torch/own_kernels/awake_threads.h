// PyTorch's threads as a call finds them in a step, where one op follows another: awake.
//
//   step      |op|op|op|          threads wait for the next op on their processors
//   profile   |op| ... |op|       inputs are made and results hashed in between: they have gone to
//                                 sleep, and on a busy machine they wait for a turn to wake up
#pragma once

namespace fitstep::torch_side {

// Returns when all of them are running. Microseconds on an idle machine.
void wake_threads();

}  // namespace fitstep::torch_side
