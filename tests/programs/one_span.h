// A value that idles while a larger one exists: `a` (4 bytes) between op 0 and op 2, beside `wide`
// (6 bytes). Each op takes 1 s.
//
//   op       0     1     2
//   a        |=====|.....|=====|
//   wide           |=====|
//   end                  |=====|
#pragma once

#include <string_view>

namespace fitstep {

inline constexpr std::string_view kOneSpan = R"(fitstep program 1
storage 0 "a" 4 temporary
storage 1 "wide" 6 temporary
storage 2 "end" 1 output
op 0 "a" matmul
form "default" time 1000000000000 pure writes 0.1
op 1 "wide" matmul
form "default" time 1000000000000 writes 1.1
op 2 "end" matmul
form "default" time 1000000000000 reads 0.1 writes 2.1
end calls 0 storages 3 ops 3
)";

}  // namespace fitstep
