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
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/machine/profiles.h"
#include "fitstep/machine/roofline.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/longest.h"

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
               machine.error().message +
                   "; for a file, write its path with a / or a name that ends in .json"};
}

struct TierOption {
  const char* name;
  const char* above;  // The tier above it.
  TierId tier;
};

// 0 bytes closes the tier. A capacity of 0 in an open tier means: not known.
Status limit_tier(const TierOption& option, const std::string& text, Machine& machine) {
  if (text.empty()) return Done{};
  FITSTEP_TRY(const int64_t bytes, parse_bytes(text));
  if (option.tier.index() >= machine.tiers.size()) {
    return Error{ErrorCode::BadInput,
                 fmt::format("{} {}: machine \"{}\" has no tier below the {}; "
                             "leave the option out, or choose a --machine with that tier",
                             option.name, text, machine.name, option.above)};
  }
  Tier& tier = machine.tiers[option.tier.index()];
  tier.capacity_bytes = bytes;
  tier.is_closed = bytes == 0;
  return Done{};
}

}  // namespace

void add_machine_options(CLI::App& verb, MachineOptions& options) {
  verb.add_option(
      "--machine", options.machine,
      "A profile's name (`fitstep machine` lists the names) or a file. Without it there "
      "is only the device: nothing can be offloaded");
  verb.add_option(
          "--times", options.times,
          "Times of ops: recorded (measured, kept in the program) or roofline (computed from "
          "the machine's peaks, for a machine where the program was never measured)")
      ->check(CLI::IsMember(std::vector<std::string>{"recorded", kRoofline}));
  verb.add_option(
      "--host-budget", options.host_budget,
      "Host memory for offloaded tensors, such as 32GiB; 0: offload nothing to the host. "
      "Default: all that the machine has");
  verb.add_option("--disk-budget", options.disk_budget,
                  "Disk space for tensors that the host has no room for, such as 200GiB; 0: none. "
                  "Default: all that the machine has");
}

Result<Machine> load_machine(const MachineOptions& options) {
  Result<Machine> machine = find_machine(options.machine);
  if (!machine.has_value()) return machine;
  if (options.times == kRoofline && !machine->roofline) {
    return Error{ErrorCode::BadInput,
                 fmt::format("--times roofline: machine \"{}\" has no \"roofline\"; choose another "
                             "one, such as --machine a100-40gb",
                             machine->name)};
  }
  FITSTEP_TRY_STATUS(
      limit_tier({"--host-budget", "device", kHostTier}, options.host_budget, *machine));
  FITSTEP_TRY_STATUS(
      limit_tier({"--disk-budget", "host", kDiskTier}, options.disk_budget, *machine));
  return machine;
}

Result<Program> timed(Program program, const Machine& machine, const MachineOptions& options) {
  if (options.times == kRoofline) program = with_roofline_times(std::move(program), machine);
  FITSTEP_TRY_STATUS(check_longest(program, machine));
  return program;
}

std::string describe_times(const Machine& machine, const MachineOptions& options) {
  if (options.times != kRoofline) return "recorded times";
  return "times by the roofline of " + machine.name;
}

}  // namespace fitstep
