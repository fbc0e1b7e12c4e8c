#include "cli/verbs/machine.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/machines.h"
#include "cli/text.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/machine/profiles.h"

namespace fitstep {
namespace {

std::string rate_of(int64_t bytes_per_s) {
  return bytes_per_s == 0 ? "-" : fmt::format("{:.4g}", static_cast<double>(bytes_per_s) * 1e-9);
}

std::string capacity_of(const Machine& machine, size_t tier) {
  const bool is_known = tier < machine.tiers.size() && machine.tiers[tier].capacity_bytes > 0;
  return is_known ? format_bytes(machine.tiers[tier].capacity_bytes) : "-";
}

// The first tier below the device that may hold bytes; 0 if there is none.
size_t next_tier(const Machine& machine) {
  for (size_t tier = 1; tier < machine.tiers.size(); ++tier) {
    if (!machine.tiers[tier].is_closed) return tier;
  }
  return 0;
}

// The link between a tier and the tier above it.
Link link_to(const Machine& machine, size_t tier) {
  for (const Link& link : machine.links) {
    if (link.upper.index() + 1 == tier) return link;
  }
  return {};
}

std::string list_text() {
  std::string text = fmt::format("{:<18}{:>12}{:>12}{:>9}{:>9}{:>9}{:>9}\n", "name", "device",
                                 "next tier", "evict", "prefetch", "memory", "FP32");
  text += fmt::format("{:<18}{:>12}{:>12}{:>9}{:>9}{:>9}{:>9}\n", "", "", "", "GB/s", "GB/s",
                      "GB/s", "TFLOPS");
  for (const Profile& profile : profiles()) {
    const Result<Machine> machine = named_machine(profile.name);
    if (!machine.has_value()) continue;  // Never: a test reads all profiles.
    const size_t next = next_tier(*machine);
    const Link link = link_to(*machine, next);
    const Roofline roofline = machine->roofline.value_or(Roofline{});
    const std::string flops =
        machine->roofline
            ? fmt::format("{:.4g}", static_cast<double>(roofline.fp32_flops_per_s) * 1e-12)
            : "-";
    text += fmt::format(
        "{:<18}{:>12}{:>12}{:>9}{:>9}{:>9}{:>9}\n", profile.name, capacity_of(*machine, 0),
        next == 0 ? "-" : capacity_of(*machine, next), rate_of(link.evict.alone_bytes_per_s),
        rate_of(link.prefetch.alone_bytes_per_s), rate_of(roofline.memory_bytes_per_s), flops);
  }
  return text + "\nfitstep machine NAME prints one profile and the source of each figure\n";
}

std::string list_json() {
  Json list = Json::array();
  for (const Profile& profile : profiles()) {
    list.push_back({{"name", std::string(profile.name)}, {"profile", Json::parse(profile.json)}});
  }
  return to_text(list);
}

}  // namespace

CLI::App* add_machine(CLI::App& app, MachineVerbOptions& options) {
  CLI::App* verb = app.add_subcommand("machine", "List machines, print one, or measure this one");
  verb->add_option("name", options.name,
                   "A profile's name or file. With --measure: a name for the new profile");
  CLI::Option* measure =
      verb->add_flag("--measure", options.is_measured, "Measure this machine; takes seconds");
  verb->add_option("--threads", options.threads, "Threads that compute; default: all cores")
      ->check(CLI::Range(1, 4096))
      ->needs(measure);
  verb->add_option("--disk-dir", options.disk_path, "Also measure the disk of this folder")
      ->needs(measure);
  verb->add_option("-o,--output", options.output_path, "Write the profile to this file");
  verb->add_flag("--json", options.as_json, "Print the list as JSON; one profile always is JSON");
  verb->footer(
      "Exit code: 0 printed, 2 the input cannot be used or a measurement failed.\n"
      "Example:\n"
      "  fitstep machine\n"
      "  fitstep machine a100-40gb\n"
      "  fitstep machine --measure here --disk-dir /tmp -o here.json");
  return verb;
}

Answer run_machine(const MachineVerbOptions& options) {
  if (options.name.empty() && !options.is_measured) {
    if (!options.output_path.empty()) {
      return bad_input({ErrorCode::BadInput, "--output: name the profile, or add --measure"});
    }
    return Answer{ExitCode::Yes, options.as_json ? list_json() : list_text(), ""};
  }
  const Result<Machine> machine = options.is_measured
                                      ? measure_machine(options)
                                      : load_machine(MachineOptions{.machine = options.name});
  if (!machine.has_value()) return bad_input(machine.error());
  const std::string text = print_machine(*machine);
  if (options.output_path.empty()) return Answer{ExitCode::Yes, text, ""};
  const Status saved = save_text(options.output_path, text);
  if (!saved.has_value()) return bad_input(saved.error());
  return Answer{ExitCode::Yes, fmt::format("written to {}\n", options.output_path), ""};
}

}  // namespace fitstep
