#include "cli/machines.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/files.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/machine/profiles.h"
#include "fitstep/machine/roofline.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr const char* kRoofline = "roofline";

Result<Machine> find_machine(const std::string& name) {
  if (name.empty()) return Machine{.name = "local", .tiers = {{.name = "device"}}};
  const bool is_profile = std::ranges::count(profiles(), name, &Profile::name) > 0;
  const bool is_path = name.find('/') != name.npos || name.ends_with(".json");
  if (is_path && !is_profile) return load_machine_file(name);
  Result<Machine> machine = named_machine(name);
  if (machine.has_value()) return machine;
  return Error{machine.error().code,
               machine.error().message + "; a file is given with a / or ending in .json"};
}

}  // namespace

void add_machine_options(CLI::App& verb, MachineOptions& options) {
  verb.add_option("--machine", options.machine,
                  "A profile's name (`fitstep machine` lists them) or a file; otherwise one tier "
                  "and the times that the program holds");
  verb.add_option("--times", options.times,
                  "What ops take: as recorded in the program, or by the machine's roofline")
      ->check(CLI::IsMember(std::vector<std::string>{"recorded", kRoofline}));
  verb.add_option("--host-budget", options.host_budget,
                  "Bytes of the host tier, such as 32GiB; what the machine has otherwise");
}

Result<Machine> load_machine(const MachineOptions& options) {
  Result<Machine> machine = find_machine(options.machine);
  if (!machine.has_value()) return machine;
  if (options.times == kRoofline && !machine->roofline) {
    return Error{ErrorCode::BadInput,
                 fmt::format("--times roofline: machine \"{}\" has no \"roofline\"; choose one "
                             "with --machine",
                             machine->name)};
  }
  if (options.host_budget.empty()) return machine;
  FITSTEP_TRY(const int64_t host_bytes, parse_bytes(options.host_budget));
  if (machine->tiers.size() < 2) {
    return Error{ErrorCode::BadInput,
                 fmt::format("--host-budget {}: machine \"{}\" has no tier below the device",
                             options.host_budget, machine->name)};
  }
  machine->tiers[1].capacity_bytes = host_bytes;
  return machine;
}

Program timed(Program program, const Machine& machine, const MachineOptions& options) {
  if (options.times != kRoofline) return program;
  return with_roofline_times(std::move(program), machine);
}

std::string describe_times(const Machine& machine, const MachineOptions& options) {
  if (options.times != kRoofline) return "recorded times";
  return "times by the roofline of " + machine.name;
}

}  // namespace fitstep
