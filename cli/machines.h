// The machine and the times that a verb works with: --machine NAME|FILE, --times, --host-budget,
// --disk-budget.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct MachineOptions {
  std::string machine;  // A profile's name or a file; empty: one tier, as the program was recorded.
  std::string times = "recorded";
  std::string host_budget;  // As people write it; empty: what the machine has.
  std::string disk_budget;
};

void add_machine_options(CLI::App& verb, MachineOptions& options);

// Errors: no such profile or file, a profile with a fault, a budget that is none or for a tier that
// the machine has not, roofline times for a machine without a roofline.
Result<Machine> load_machine(const MachineOptions& options);

// The program with the times that the options ask for. Error: together with what copies take they
// may be longer than times can say.
Result<Program> timed(Program program, const Machine& machine, const MachineOptions& options);

// "recorded times", "times by the roofline of a100-40gb".
std::string describe_times(const Machine& machine, const MachineOptions& options);

}  // namespace fitstep
