// Copies in a code, between the device and a lower tier: fewer bytes on the slow link, and time to
// encode and decode.
//
//   plain      host |======|  disk |============|          as long as the disk takes
//   coded           |======|       |=====|  coding |--|
//   to the host     coding |-----------|                   one thread reads all bytes
//   by the device   coding |---|                           the host's link carries the code too
//
// The size of a code comes from an example (Storage::zero_value_bytes) and is only an expectation.
// Only predicted times depend on it.
#pragma once

#include <cstdint>
#include <optional>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {

// True if the residency is coded on the host or the disk.
bool has_copy_code(const Residency& residency);

// The expected size of the storage in the code; none if not known.
std::optional<int64_t> coded_bytes(const Storage& storage, Code code);

// Turns `work`, a copy between the device and a lower tier, into a copy in `code`. A storage
// without a known size in the code copies all bytes; coding without a known rate takes no time.
void put_code(const Storage& storage, Code code, const Machine& machine, Work& work);

// The machine's codec for `code` and copies to `lower`, if its rates are known. A device that codes
// does so for copies to the host; for copies to the disk the CPU codes.
std::optional<Codec> codec_of(const Machine& machine, Code code, TierId lower);

}  // namespace fitstep
