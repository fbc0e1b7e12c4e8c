// What a code makes of a copy to a tier below and back: fewer bytes on the slow link, time to code
// them.
//
//   plain      host |======|  disk |============|          as long as the disk takes
//   coded           |======|       |=====|  coding |--|
//   to the host     coding |-----------|                   all bytes are read, by one thread
//   by the device   coding |---|                           the host's link carries the code too
//
// How many bytes is known from an example (Storage::zero_value_bytes), and only an expectation: the
// simulator's answer depends on it, nothing else does.
#pragma once

#include <cstdint>
#include <optional>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {

// Whether the residency's bytes are below the device in a code.
bool has_copy_code(const Residency& residency);

// The bytes that are expected of a storage in the code; none where nobody has looked.
std::optional<int64_t> coded_bytes(const Storage& storage, Code code);

// Makes a copy between the device and a tier below one in the code. Where the storage has no known
// size in it all bytes go; coding whose rate the machine does not say takes no time.
void put_code(const Storage& storage, Code code, const Machine& machine, Work& work);

// The machine's codec of that name for copies to that tier, if its rates are known. A device that
// codes does so for the host; its processor does for the disk.
std::optional<Codec> codec_of(const Machine& machine, Code code, TierId lower);

}  // namespace fitstep
