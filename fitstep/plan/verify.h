// The verifier: does this plan run this program correctly?
//
// The verifier shares no code with the planner, and every plan passes it before it is used. A plan
// is valid if
//
//   1. Every read finds the version that the program had there. The verifier executes the plan on
//      contents (storage, version, code) instead of bytes; a recompute must read the same versions,
//      with the same generator state.
//   2. No two residencies or scratch blocks share bytes while both may be live. "May" is decided by
//      happens-before (lane order and waits), never by predicted times.
//   3. Every op first runs in its default form (or one with equal bits), later in pure or restoring
//      forms; generator versions are drawn in program order. Only optional ops need not run.
//   4. Capacities and alignment hold on every tier, and waits have no cycle. Every residency but
//      the homes is released, and the end state equals the start state.
//   5. Each copy lane copies only between its two tiers; homes lie on the device or the host.
//
// A kernel requests memory while its op runs. An input is live until the op ends, an output from
// its request on, scratch from its request to its release:
//
//   position       0    1    2    3
//   input          |--------------|
//   scratch             |----|             may share bytes with blocks before and after it
//   output                   |----|--->    may reuse bytes of released scratch, not of the input,
//                                          unless Write::may_take names that input
//
// The plan's peak: the most bytes that may be live on the device at one position of one compute
// action, homes included. Bytes that an output takes from its input count once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

enum class FaultKind {
  Malformed,     // An id out of range, a missing operand.
  WrongProgram,  // The plan's hash is of another program.
  WrongVersion,  // A read finds another version than in the program.
  NotResident,   // A read or a copy of a residency before its first write or after its release.
  Overlap,       // Two live residencies or scratch blocks share bytes.
  OverCapacity,
  Misaligned,
  MissingOp,         // An op of the program does not run, or runs twice in a form that is not pure.
  WrongGenerator,    // A random draw in another order or from another state.
  Deadlock,          // Waits form a cycle.
  NotACycle,         // The end state differs from the start state.
  WrongCertificate,  // A number of the certificate is wrong.
};

struct Fault {
  FaultKind kind = FaultKind::Malformed;
  std::string message;  // Names action, storage and numbers.
};

struct Limits {
  std::vector<int64_t> capacity_bytes;  // One per tier.
  int64_t bottom_bytes = 0;             // Only homes lie below this device offset.
  int64_t host_bottom_bytes = 0;        // The same on the host tier.
};

// The first `kMaxFaults` faults; empty for a valid plan. Never throws on a bad plan.
std::vector<Fault> verify(const Program& program, const Plan& plan, const Limits& limits);
inline constexpr size_t kMaxFaults = 20;

const char* to_string(FaultKind kind);

}  // namespace fitstep
