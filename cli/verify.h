// `fitstep verify PLAN PROGRAM`: is this plan a valid way to run this program in this capacity?
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/command.h"

namespace fitstep {

struct VerifyOptions {
  std::string plan_path;
  std::string program_path;
  std::string capacity;       // As people write them. Empty: what the plan was made for, ...
  std::string host_capacity;  // ... and any number of bytes.
  std::string disk_capacity;
  bool as_json = false;
};

CLI::App* add_verify(CLI::App& app, VerifyOptions& options);
Answer run_verify(const VerifyOptions& options);

}  // namespace fitstep
