// Programs with values that may be held in fewer bytes: the smallest, and any other made into one.
//
//   f --> y --> w                   w needs all of y
//          \--> pack --> m --\      m has a quarter of y's bytes
//          \------------------> b   needs y, or m instead
#pragma once

#include <cstdint>
#include <string_view>

#include "fitstep/program/program.h"

namespace fitstep {

// Units of 64 bytes; one second per op, none for pack. y has 4 units, m one, and `big`, which is
// there between w and b only, has 4. So with y kept 8 units are needed, with m 5.
inline constexpr std::string_view kPacked = R"(fitstep program 1
name "packed"
storage 0 "x" 64 input start
storage 1 "y" 256 temporary
storage 2 "m" 64 temporary
storage 3 "big" 256 temporary
storage 4 "small" 0 temporary
storage 5 "loss" 64 output
op 0 "f" activation
form "default" time 1000000000000 reads 0.0 writes 1.1
op 1 "pack" copy optional
form "default" pure reads 1.1 writes 2.1
op 2 "w" matmul
form "default" time 1000000000000 pure reads 0.0 writes 3.1
op 3 "d" matmul
form "default" time 1000000000000 pure reads 3.1 writes 4.1
op 4 "b" activation
form "default" time 1000000000000 reads 1.1:sign 4.1 writes 5.1
form "from packed y" time 1000000000000 reads 2.1 4.1 writes 5.1
end calls 0 storages 6 ops 5
)";

struct PackOptions {
  int32_t most = 2;        // Optional ops.
  int64_t unit_bytes = 1;  // Of a code; what is packed has at least two.
};

// The program with up to so many of its reads made optional to pack; the same for equal seeds.
//
// REQUIRES: validate(program) holds.
Program with_packs(Program program, uint64_t seed, const PackOptions& options = {});

}  // namespace fitstep
