// Compares the bytes after steps of a plan with those after steps of keep_all().
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

// The test fails if the step cannot be made.
std::unique_ptr<HashStep> make_step(const Program& program, const Plan& plan,
                                    std::shared_ptr<Device> device);

// Contents after each of two steps of keep_all(). The second step starts with the arenas that the
// first step leaves.
std::vector<Contents> plain_contents(const Program& program);

// Whether the steps of `step` leave these contents, one after another.
bool has_same_bytes(HashStep& step, const std::vector<Contents>& plain);

// The faults that verify() finds in a plan of offload_gaps(), except the missing peak.
std::string faults_but_peak(const Program& program, const Plan& plan);

// Position of the first op that writes what lives from step to step.
int32_t first_lasting_write(const Program& program, const Plan& plan);

}  // namespace fitstep
