// The verifier: is this plan a valid way to run this program?
//
// Written from the definition of validity; shares no code with the planner, and is run on every
// plan before it is used:
//   1. Symbolic execution. The content of a residency is (storage, version, code). Every read of
//      every op instance finds the version that the original program had there; a recompute
//      reproduces a version from the versions it needs, with the generator state it had.
//   2. No two residencies or scratch blocks share bytes while both may be live. "May" means by
//      happens-before (lane order plus waits), never by predicted times.
//   3. Every op runs once in its default (or an equal-bits) form, all that follow are pure or
//      restoring forms; generator versions are drawn in program order. An optional op need not
//      run: whoever reads what it makes must find it all the same.
//   4. Capacities hold on every tier, alignment holds, waits are acyclic, every non-home residency
//      is released, and the end state equals the start state.
//   5. Each copy lane copies from and to its own tiers only; homes lie on the device or the host.
//
// A kernel has positions of its own: its requests come and go while the op runs. An input is there
// until the op ends, an output from its request on, scratch from its request to its release:
//
//   position       0    1    2    3
//   input          |--------------|
//   scratch             |----|             may share bytes with what comes or went before
//   output                   |----|--->    may lie where scratch has gone, never on the input,
//                                          unless Write::may_take names that input
//
// The plan's peak is the most bytes that may be live on the device at one position of one action
// of the compute lane, homes included; bytes that an output takes from its input count once.
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
  WrongProgram,  // The hash is another program's.
  WrongVersion,  // A read finds other content than the program had there.
  NotResident,   // A read or a copy of what is not there (not yet, or released).
  Overlap,       // Two live residencies or scratch blocks share bytes.
  OverCapacity,
  Misaligned,
  MissingOp,       // An op of the program does not run, or runs twice in a form that is not pure.
  WrongGenerator,  // A draw out of order, or from another state.
  Deadlock,        // Waits form a cycle.
  NotACycle,  // Something is live at the end that was not at the start, or the other way round.
  WrongCertificate,  // A number of the certificate is not the plan's, or contradicts another.
};

struct Fault {
  FaultKind kind = FaultKind::Malformed;
  std::string message;  // Which action, which storage, which numbers.
};

struct Limits {
  std::vector<int64_t> capacity_bytes;  // One per tier.
  int64_t bottom_bytes = 0;       // Below this device address lie only homes, also other variants'.
  int64_t host_bottom_bytes = 0;  // The same of the host tier.
};

// All faults found, at most `kMaxFaults`; empty for a valid plan. Never throws on a bad plan.
std::vector<Fault> verify(const Program& program, const Plan& plan, const Limits& limits);
inline constexpr size_t kMaxFaults = 20;

const char* to_string(FaultKind kind);

}  // namespace fitstep
