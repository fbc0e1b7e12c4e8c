// Bytes on the device by what they are, as papers on memory count them, op by op.
//
//   bytes
//     3 |      ###             gradients of maps, from the first op of the backward part on
//     2 |   ######             maps: what the forward part makes
//     1 +--==========--        weights, their gradients, optimizer state, workspace
//
// The backward part begins with the first op whose name says so, as PyTorch's do.
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

using KindBytes = std::array<int64_t, kByteKinds>;  // Indexed by ByteKind.

// By position of the compute lane.
std::vector<KindBytes> bytes_by_kind(const Program& program, const Plan& plan,
                                     const Timeline& timeline);

// Over the time of a step, of the kinds in `kinds`.
struct BytesOverTime {
  int64_t most_bytes = 0;
  int64_t average_bytes = 0;
};
BytesOverTime over_time(const std::vector<KindBytes>& bytes, const Timeline& timeline,
                        const std::vector<ByteKind>& kinds);

}  // namespace fitstep
