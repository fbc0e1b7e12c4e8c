// `fitstep layout FILE`: gives every block an offset, in as few bytes as the search can find.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"

namespace fitstep {

struct LayoutOptions {
  std::string path;
  std::string capacity;  // Such as "1MiB"; empty: search for the lowest layout.
  std::string output;    // File for the offsets; empty: none.
  int64_t alignment_bytes = 1;
  double time_limit_s = 10;
  uint64_t seed = 1;
  bool is_closed = false;  // Blocks are live at tick `upper` too.
  bool as_json = false;
};

CLI::App* add_layout(CLI::App& app, LayoutOptions& options);
Answer run_layout(const LayoutOptions& options);

}  // namespace fitstep
