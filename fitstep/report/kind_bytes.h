// Bytes on the device by kind, op by op, as papers on memory count them.
//
//   bytes
//     3 |      ###             gradients of maps, in the backward part
//     2 |   ######             maps: outputs of the forward part
//     1 +--==========--        weights, their gradients, optimizer state, workspace
//
// The backward part begins with the first op that has "backward" in its name.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

enum class ByteKind { Weights, WeightGradients, States, Maps, MapGradients, Workspace };
inline constexpr int kByteKinds = 6;
const char* to_string(ByteKind kind);

// By storage. What an update reads beside parameters and states is a gradient of a weight.
std::vector<ByteKind> byte_kinds(const Program& program);

using KindBytes = std::array<int64_t, kByteKinds>;  // Indexed by ByteKind.

// By position of the compute lane.
std::vector<KindBytes> bytes_by_kind(const Program& program, const Plan& plan,
                                     const Timeline& timeline);

// Bytes of the kinds in `kinds`, over the time of a step.
struct BytesOverTime {
  int64_t most_bytes = 0;
  int64_t average_bytes = 0;
};
BytesOverTime over_time(const std::vector<KindBytes>& bytes, const Timeline& timeline,
                        const std::vector<ByteKind>& kinds);

}  // namespace fitstep
