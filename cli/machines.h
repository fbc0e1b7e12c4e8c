// Options that say which machine and which op times a verb uses: --machine NAME|FILE, --times,
// --host-budget, --disk-budget.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct MachineOptions {
  std::string machine;  // A profile's name or a file; empty: a device without other tiers.
  std::string times = "recorded";
  std::string host_budget;  // Such as "32GiB"; empty: what the machine has.
  std::string disk_budget;
};

void add_machine_options(CLI::App& verb, MachineOptions& options);

// Errors: no such profile or file; a profile with a fault; a budget that is not a number of bytes,
// or for a tier that the machine lacks; roofline times for a machine without a roofline.
Result<Machine> load_machine(const MachineOptions& options);

// The program with the times that the options ask for. Error: the sum of all times could overflow
// (the machine is too slow).
Result<Program> timed(Program program, const Machine& machine, const MachineOptions& options);

// "recorded times", "times by the roofline of a100-40gb".
std::string describe_times(const Machine& machine, const MachineOptions& options);

}  // namespace fitstep
