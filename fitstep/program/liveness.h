// Liveness: which bytes a program holds at each tick without a plan and without optional ops.
//
//   bytes
//     3 |         +-- a2 ---+
//     2 |    +------- a1 --------+
//     1 +------------ a0 -------------+
//       +----+----+----+----+----+----+--> tick
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

// By storage: first write to last use. Persistent storages and storages with content at start begin
// at 0; persistent storages and outputs end after the last op. Empty: never used.
std::vector<Interval> lifetimes(const Program& program);

// Most bytes live during each op if every storage stays for its whole lifetime: storages of the
// arena and scratch of the default forms. External storages count only `with_external`.
std::vector<int64_t> live_bytes(const Program& program, bool with_external);

// The largest number of live_bytes().
int64_t peak_bytes(const Program& program, bool with_external);

// Most bytes that plain PyTorch holds during each op, by recorded births and deaths, scratch and
// external storages included.
std::vector<int64_t> plain_bytes(const Program& program);

// The largest number of plain_bytes().
int64_t plain_peak_bytes(const Program& program);

// The scratch of a form: the most bytes, outputs left out, that its kernels hold at once.
int64_t scratch_bytes(const Form& form);

}  // namespace fitstep
