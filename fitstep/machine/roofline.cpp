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
  constexpr double kMostSeconds = 3600;  // So that sums over a program stay in range.
  return std::llround(std::min(seconds, kMostSeconds) * static_cast<double>(kPicosecondsPerSecond));
}

double seconds(const Op& op, const Roofline& roofline) {
  const double flops_per_s =
      roofline.flops_efficiency * static_cast<double>(roofline.fp32_flops_per_s);
  const double bytes_per_s =
      roofline.memory_efficiency * static_cast<double>(roofline.memory_bytes_per_s);
  return std::max(static_cast<double>(op.flops) / flops_per_s,
                  static_cast<double>(op.bytes) / bytes_per_s);
}

}  // namespace

Program with_roofline_times(Program program, const Machine& machine) {
  FITSTEP_CHECK(machine.roofline.has_value(), machine.name + " has no roofline");
  for (Op& op : program.ops) {
    const double default_seconds = seconds(op, *machine.roofline);
    const int64_t measured_ps = op.forms.front().time_ps;
    for (Form& form : op.forms) {
      const double share =
          measured_ps > 0 ? static_cast<double>(form.time_ps) / static_cast<double>(measured_ps)
                          : 1.0;
      form.time_ps = to_ps(default_seconds * share);
    }
  }
  return program;
}

}  // namespace fitstep
