// Units in which tests count, so that expected numbers are short, and the smallest machine.
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

inline constexpr int64_t kSecond = kPicosecondsPerSecond;
inline constexpr int64_t kUnitBytes = kAlignmentBytes;  // Blocks of whole units leave no padding.

// There is nowhere to evict to.
inline Machine lone_device() { return {.name = "unit", .tiers = {{.name = "device"}}}; }

}  // namespace fitstep
