// `fitstep machine`: the profiles that come with fitstep, one of them as JSON, or one of this
// machine, measured now.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct MachineVerbOptions {
  std::string name;  // A profile's or a file's; of the measured profile with --measure.
  bool is_measured = false;
  int32_t threads = 0;    // That compute; 0: all of the machine.
  std::string disk_path;  // Of a folder; empty: no disk tier.
  std::string output_path;
  bool as_json = false;
};

CLI::App* add_machine(CLI::App& app, MachineVerbOptions& options);
Answer run_machine(const MachineVerbOptions& options);

// This machine as it is now: a device tier and a host tier in RAM and, if asked for, one of files.
// Takes seconds.
Result<Machine> measure_machine(const MachineVerbOptions& options);

}  // namespace fitstep
