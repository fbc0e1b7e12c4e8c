// A kernel of the stand-in for a GPU: the CPU's, on the same bytes.
#pragma once

#include <vector>

namespace c10 {
class OperatorHandle;
struct IValue;
}  // namespace c10

namespace fitstep::stand_in {

void run_on_host(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

}  // namespace fitstep::stand_in
