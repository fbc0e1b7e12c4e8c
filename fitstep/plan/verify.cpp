#include "fitstep/plan/verify.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify_parts.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace verifier {

std::string Subject::label(ActionRef ref) const {
  const Action& it = action(ref);
  if (it.kind == Action::Kind::Copy) {
    return fmt::format("{} {} (copy of residency {} to {})", to_string(ref.lane), ref.position,
                       it.copy.source.value(), it.copy.target.value());
  }
  const bool is_op = !it.run.op.is_none() && it.run.op.index() < program.ops.size();
  return fmt::format("{} {} (op {} {}, form {})", to_string(ref.lane), ref.position,
                     it.run.op.value(), is_op ? program.ops[it.run.op.index()].name : "?",
                     it.run.form);
}

std::string Subject::label(ResidencyId id) const {
  const StorageId owner = residency(id).storage;
  const bool is_storage = !owner.is_none() && owner.index() < program.storages.size();
  return fmt::format("residency {} (storage {} {})", id.value(), owner.value(),
                     is_storage ? program.storages[owner.index()].name : "?");
}

namespace {

void check_certificate(const Certificate& claim, int64_t peak_bytes, int64_t height_bytes,
                       Faults& faults) {
  if (claim.peak_bytes != peak_bytes) {
    faults.add(FaultKind::WrongCertificate, "the certificate's peak is {}, the plan's peak is {}",
               claim.peak_bytes, peak_bytes);
  }
  if (claim.height_bytes != height_bytes) {
    faults.add(FaultKind::WrongCertificate,
               "the certificate's height is {}, the plan's height is {}", claim.height_bytes,
               height_bytes);
  }
  if (claim.floor_bytes < 0 || claim.floor_bytes > height_bytes) {
    faults.add(FaultKind::WrongCertificate, "the certificate's floor is {}; this plan needs {}",
               claim.floor_bytes, height_bytes);
  }
  if (claim.capacity_bytes < height_bytes) {
    faults.add(FaultKind::WrongCertificate,
               "the plan needs {} bytes and was made for a capacity of {}", height_bytes,
               claim.capacity_bytes);
  }
  if (claim.bound_ps > claim.predicted_ps) {
    faults.add(FaultKind::WrongCertificate, "the bound of {} ps is more than the predicted {} ps",
               claim.bound_ps, claim.predicted_ps);
  }
}

void check(const Subject& subject, Faults& faults) {
  if (const Status status = validate(subject.program); !status) {
    faults.add(FaultKind::Malformed, "{}", status.error().message);
    return;
  }
  if (const std::string hash = hash_program(subject.program); subject.plan.program_hash != hash) {
    faults.add(FaultKind::WrongProgram, "the plan is for program {}, not for {}",
               subject.plan.program_hash, hash);
    return;  // Further faults would be about the other program.
  }
  check_shape(subject, faults);
  if (!faults.is_empty()) return;
  const Order order(subject, faults);
  if (!faults.is_empty()) return;
  const std::vector<Life> lives = check_contents(subject, order, faults);
  const Space space = check_space(subject, order, lives, faults);
  if (!faults.is_empty()) return;
  check_certificate(subject.plan.certificate, peak_bytes(subject, order, lives, space),
                    space.height_bytes, faults);
}

}  // namespace
}  // namespace verifier

std::vector<Fault> verify(const Program& program, const Plan& plan, const Limits& limits) {
  verifier::Faults faults;
  verifier::check({.program = program, .plan = plan, .limits = limits}, faults);
  return std::move(faults).take();
}

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::Malformed:
      return "malformed";
    case FaultKind::WrongProgram:
      return "wrong program";
    case FaultKind::WrongVersion:
      return "wrong version";
    case FaultKind::NotResident:
      return "not resident";
    case FaultKind::Overlap:
      return "overlap";
    case FaultKind::OverCapacity:
      return "over capacity";
    case FaultKind::Misaligned:
      return "misaligned";
    case FaultKind::MissingOp:
      return "missing op";
    case FaultKind::WrongGenerator:
      return "wrong generator";
    case FaultKind::Deadlock:
      return "deadlock";
    case FaultKind::NotACycle:
      return "not a cycle";
    case FaultKind::WrongCertificate:
      return "wrong certificate";
  }
  return "unknown";
}

}  // namespace fitstep
