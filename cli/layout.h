// `fitstep layout FILE`: where do these blocks lie, and how many bytes does that take?
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"

namespace fitstep {

struct LayoutOptions {
  std::string path;
  std::string capacity;  // As people write it; empty: as low as can be found.
  std::string output;    // Where the offsets go; empty: nowhere.
  int64_t alignment_bytes = 1;
  double time_limit_s = 10;
  uint64_t seed = 1;
  bool is_closed = false;  // Blocks are live at `upper` too.
  bool as_json = false;
};

CLI::App* add_layout(CLI::App& app, LayoutOptions& options);
Answer run_layout(const LayoutOptions& options);

}  // namespace fitstep
