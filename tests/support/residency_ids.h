// Residencies by number, for plans written by hand.
#pragma once

#include <cstdint>

#include "fitstep/base/id.h"

namespace fitstep {

inline ResidencyId id(int32_t residency) { return ResidencyId(residency); }

}  // namespace fitstep
