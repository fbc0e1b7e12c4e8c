// The running example of all headers and tests as a program: the activation pyramid.
//
//   bytes
//     3 |         +-- a2 ---+
//     2 |    +------- a1 --------+
//     1 +------------ a0 -------------+
//       +----+----+----+----+----+----+--> tick
//         f0   f1   f2   b2   b1   b0
#pragma once

#include <cstdint>
#include <string_view>

#include "fitstep/base/id.h"

namespace fitstep {

// One byte each, one second per op; the forward ops are pure. Gradients have no bytes, so that the
// picture stays the picture.
inline constexpr std::string_view kPyramid = R"(fitstep program 1
name "pyramid"
storage 0 "x" 1 input start recorded 0-6
storage 1 "a0" 1 temporary recorded 0-6
storage 2 "a1" 1 temporary recorded 1-5
storage 3 "a2" 1 temporary recorded 2-4
storage 4 "d1" 0 temporary recorded 3-5
storage 5 "d0" 0 temporary recorded 4-6
storage 6 "loss" 1 output recorded 5-6
op 0 "f0" matmul
form "default" time 1000000000000 pure reads 0.0 writes 1.1
op 1 "f1" matmul
form "default" time 1000000000000 pure reads 1.1 writes 2.1
op 2 "f2" matmul
form "default" time 1000000000000 pure reads 2.1 writes 3.1
op 3 "b2" matmul
form "default" time 1000000000000 pure reads 3.1 writes 4.1
op 4 "b1" matmul
form "default" time 1000000000000 pure reads 4.1 2.1 writes 5.1
op 5 "b0" matmul
form "default" time 1000000000000 reads 5.1 1.1 writes 6.1
end calls 0 storages 7 ops 6
)";

inline constexpr StorageId kA0(int32_t{1});
inline constexpr StorageId kA1(int32_t{2});

}  // namespace fitstep
