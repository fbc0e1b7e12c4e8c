// How much a sweep tries: little at every change, all of it in `make test-long`.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace fitstep {

inline bool is_long() { return std::getenv("FITSTEP_LONG") != nullptr; }

// `few` seeds; `many` if FITSTEP_LONG is set.
inline uint64_t seeds(uint64_t few, uint64_t many) { return is_long() ? many : few; }

}  // namespace fitstep
