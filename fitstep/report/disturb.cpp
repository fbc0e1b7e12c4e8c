#include "fitstep/report/disturb.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

int64_t scaled(int64_t number, double factor) {
  return std::llround(static_cast<double>(number) * factor);
}

void slow_down(Rate& rate, double factor) {
  rate.alone_bytes_per_s = std::max<int64_t>(1, scaled(rate.alone_bytes_per_s, factor));
  rate.both_bytes_per_s = std::max<int64_t>(1, scaled(rate.both_bytes_per_s, factor));
}

}  // namespace

Program disturb(Program program, const Disturbance& disturbance) {
  std::mt19937_64 random(disturbance.seed);
  for (Op& op : program.ops) {
    // The engine's bits are the same everywhere, those of the standard distributions are not.
    const double share = static_cast<double>(random() >> 11U) * 0x1.0p-53;
    const double width = disturbance.most_factor - disturbance.least_factor;
    const double factor = disturbance.least_factor + share * width;
    for (Form& form : op.forms) form.time_ps = scaled(form.time_ps, factor);
  }
  return program;
}

Machine disturb(Machine machine, const Disturbance& disturbance) {
  for (Link& link : machine.links) {
    slow_down(link.evict, disturbance.rate_factor);
    slow_down(link.prefetch, disturbance.rate_factor);
  }
  return machine;
}

}  // namespace fitstep
