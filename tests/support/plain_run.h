// Steps of a plan on a device against steps of the plainest plan of its program: the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/run/device.h"
#include "tests/support/hash_step.h"

namespace fitstep {

using Contents = std::vector<std::string>;  // By storage, as HashStep says.

// The test fails where it cannot be made.
std::unique_ptr<HashStep> make_step(const Program& program, const Plan& plan,
                                    std::shared_ptr<Device> device);

// After each of two steps of the plan that keeps everything on the device and has one lane. The
// second finds the arenas as the first leaves them.
std::vector<Contents> plain_contents(const Program& program);

// Whether steps of `step` leave these, one after another.
bool has_same_bytes(HashStep& step, const std::vector<Contents>& plain);

// What verify() says of a plan of offload_gaps(), but for the peak, which that does not fill in.
std::string faults_but_peak(const Program& program, const Plan& plan);

// Position of the first op that writes what lives from step to step.
int32_t first_lasting_write(const Program& program, const Plan& plan);

}  // namespace fitstep
