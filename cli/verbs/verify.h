// `fitstep verify PLAN PROGRAM`: proves that the plan runs the program correctly in a capacity.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/command.h"

namespace fitstep {

struct VerifyOptions {
  std::string plan_path;
  std::string program_path;
  std::string capacity;       // Such as "6GiB"; empty: what the plan was made for.
  std::string host_capacity;  // Empty: no limit; the same for the disk.
  std::string disk_capacity;
  bool as_json = false;
};

CLI::App* add_verify(CLI::App& app, VerifyOptions& options);
Answer run_verify(const VerifyOptions& options);

}  // namespace fitstep
