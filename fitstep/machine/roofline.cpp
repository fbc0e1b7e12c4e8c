#include "fitstep/machine/roofline.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fitstep/base/check.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

int64_t to_ps(double seconds) {
  constexpr double kMostSeconds = 3600;  // So that sums over a program do not overflow.
  return std::llround(std::min(seconds, kMostSeconds) * static_cast<double>(kPicosecondsPerSecond));
}

double seconds(int64_t flops, int64_t bytes, const Roofline& roofline) {
  const double flops_per_s =
      roofline.flops_efficiency * static_cast<double>(roofline.fp32_flops_per_s);
  const double bytes_per_s =
      roofline.memory_efficiency * static_cast<double>(roofline.memory_bytes_per_s);
  return std::max(static_cast<double>(flops) / flops_per_s,
                  static_cast<double>(bytes) / bytes_per_s);
}

int64_t operand_bytes(const Program& program, const Form& form) {
  int64_t sum_bytes = 0;
  for (const Read& read : form.reads) {
    if (read.kind != ReadKind::ShapeOnly)
      sum_bytes += program.storages[read.storage.index()].size_bytes;
  }
  for (const Write& write : form.writes)
    sum_bytes += program.storages[write.storage.index()].size_bytes;
  return sum_bytes;
}

}  // namespace

Program with_roofline_times(Program program, const Machine& machine) {
  FITSTEP_CHECK(machine.roofline.has_value(), machine.name + " has no roofline");
  const Roofline& roofline = *machine.roofline;
  for (Op& op : program.ops) {
    const double default_seconds = seconds(op.flops, op.bytes, roofline);
    const int64_t measured_ps = op.forms.front().time_ps;
    const int64_t default_bytes = operand_bytes(program, op.forms.front());
    for (Form& form : op.forms) {
      if (measured_ps > 0) {
        const double share = static_cast<double>(form.time_ps) / static_cast<double>(measured_ps);
        form.time_ps = to_ps(default_seconds * share);
      } else {
        const int64_t more_bytes = operand_bytes(program, form) - default_bytes;
        form.time_ps =
            to_ps(seconds(op.flops, std::max<int64_t>(op.bytes + more_bytes, 0), roofline));
      }
    }
  }
  return program;
}

}  // namespace fitstep
