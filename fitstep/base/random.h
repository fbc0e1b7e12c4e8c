// Random: the planner's only random numbers. Equal seeds give equal numbers on every machine; the
// distributions of the standard library do not promise that.
#pragma once

#include <cstdint>

namespace fitstep {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;  // splitmix64
    uint64_t word = state_;
    word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27U)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31U);
  }

  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  // Approximately normal: mean 0, standard deviation 1.
  double normal() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum - 6;
  }

 private:
  uint64_t state_;
};

}  // namespace fitstep
