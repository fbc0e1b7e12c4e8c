// Liveness: what a program holds, tick by tick, when nothing is planned and no optional op runs.
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

// First write to last use of every storage, by index; persistent storages and those with content at
// start begin at 0, persistent storages and outputs end after the last op. Empty if never used.
std::vector<Interval> lifetimes(const Program& program);

// Most bytes live during each op when every storage is kept for its lifetime: arena storages plus
// the scratch of the default forms. External storages are left out unless `with_external`.
std::vector<int64_t> live_bytes(const Program& program, bool with_external);

// The most of live_bytes() over all ticks.
int64_t peak_bytes(const Program& program, bool with_external);

// Most bytes that plain PyTorch holds at one tick, by recorded births and deaths, scratch included.
int64_t plain_peak_bytes(const Program& program);

// Scratch that a form needs beside its outputs: the most bytes requested and not released at once,
// outputs left out.
int64_t scratch_bytes(const Form& form);

}  // namespace fitstep
