#include "fitstep/run/executor.h"

#include <cstdint>
#include <optional>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"

namespace fitstep {

std::optional<Stopped> execute(const Plan& plan, Kernels& kernels) {
  int32_t position = 0;
  for (const Action& action : plan.lane(Lane::Compute)) {
    const Status status =
        action.kind == Action::Kind::Run ? kernels.run(position) : kernels.copy(position);
    if (!status) return Stopped{.position = position, .error = status.error()};
    ++position;
  }
  return std::nullopt;
}

}  // namespace fitstep
