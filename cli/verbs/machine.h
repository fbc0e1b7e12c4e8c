// `fitstep machine`: lists the profiles that come with fitstep, prints one as JSON, or measures
// this machine.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct MachineVerbOptions {
  std::string name;  // A profile or a file; with --measure: for the new profile.
  bool is_measured = false;
  int32_t threads = 0;    // That compute; 0: all cores.
  std::string disk_path;  // A folder; empty: no disk tier.
  std::string output_path;
  bool as_json = false;
};

CLI::App* add_machine(CLI::App& app, MachineVerbOptions& options);
Answer run_machine(const MachineVerbOptions& options);

// Measures this machine: a device tier and a host tier in RAM and, with `disk_path`, a disk tier.
// Takes seconds.
Result<Machine> measure_machine(const MachineVerbOptions& options);

}  // namespace fitstep
