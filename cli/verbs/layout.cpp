#include "cli/verbs/layout.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/block_file.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/numbers.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/check.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/layout.h"
#include "fitstep/plan/layout_check.h"
#include "fitstep/planner/layout.h"

namespace fitstep {
namespace {

struct Found {
  Layout layout;  // Checked by check_layout().
  int64_t bound_bytes = 0;
  std::optional<int64_t> capacity_bytes;
  double seconds = 0;

  bool is_optimal() const { return layout.height_bytes <= bound_bytes; }
  bool fits() const { return !capacity_bytes || layout.height_bytes <= *capacity_bytes; }
};

// Blocks that are never live get offset 0; the placer places all other blocks.
Layout lay_out(const std::vector<Block>& blocks, const PlaceOptions& options,
               int64_t& bound_bytes) {
  std::vector<Block> live;
  for (const Block& block : blocks) {
    if (!is_empty(block.live)) live.push_back(block);
  }
  Placement placement = find_placement(live, options);
  bound_bytes = placement.bound_bytes;
  Layout layout = std::move(placement.layout);
  std::vector<int64_t> offset_bytes(blocks.size(), 0);
  size_t next = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!is_empty(blocks[i].live)) offset_bytes[i] = layout.offset_bytes[next++];
  }
  layout.offset_bytes = std::move(offset_bytes);
  return layout;
}

Found find_layout(const BlockFile& file, std::optional<int64_t> capacity_bytes,
                  const LayoutOptions& options) {
  std::vector<Block> blocks = file.blocks;
  if (options.is_closed) {
    for (Block& block : blocks) ++block.live.end;
  }
  Found found{.capacity_bytes = capacity_bytes};
  const auto begin = std::chrono::steady_clock::now();
  found.layout = lay_out(blocks,
                         {.alignment_bytes = options.alignment_bytes,
                          .target_bytes = capacity_bytes.value_or(0),
                          .passes = std::numeric_limits<int32_t>::max(),
                          .exact_nodes = std::numeric_limits<int64_t>::max(),
                          .time_limit_s = options.time_limit_s,
                          .seed = options.seed},
                         found.bound_bytes);
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string fault = check_layout(blocks, found.layout, options.alignment_bytes);
  FITSTEP_CHECK(fault.empty(), fault);
  return found;
}

std::string print_json(const BlockFile& file, const Found& found, const LayoutOptions& options) {
  using Json = nlohmann::ordered_json;
  Json root = {{"blocks", file.blocks.size()},
               {"peak_bytes", found.layout.peak_bytes},
               {"bound_bytes", found.bound_bytes},
               {"height_bytes", found.layout.height_bytes},
               {"optimal", found.is_optimal()}};
  if (found.capacity_bytes) {
    root["capacity_bytes"] = *found.capacity_bytes;
    root["fits"] = found.fits();
  }
  root["alignment_bytes"] = options.alignment_bytes;
  root["seed"] = options.seed;
  root["seconds"] = found.seconds;
  Json offsets = Json::array();
  for (size_t i = 0; i < file.blocks.size(); ++i) {
    offsets.push_back({{"id", file.ids[i]}, {"offset_bytes", found.layout.offset_bytes[i]}});
  }
  root["offsets"] = std::move(offsets);
  return root.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

std::string print_text(const BlockFile& file, const Found& found) {
  const auto line = [](const char* name, int64_t bytes) {
    return fmt::format("{:<10}{} bytes ({})", name, bytes, format_bytes(bytes));
  };
  const int64_t height_bytes = found.layout.height_bytes;
  std::string text = fmt::format("{:<10}{}\n", "blocks", file.blocks.size());
  text += line("peak", found.layout.peak_bytes) + "\n";
  text += line("height", height_bytes);
  if (found.is_optimal()) {
    text += ", optimal: no layout is lower\n";
  } else {
    const double share = static_cast<double>(height_bytes) / static_cast<double>(found.bound_bytes);
    text += fmt::format(", not proven optimal: {:.3f} % above the lower bound of {}\n",
                        100 * share - 100, found.bound_bytes);
  }
  if (found.capacity_bytes) {
    text += line("capacity", *found.capacity_bytes) + (found.fits() ? ", fits\n" : "");
    if (!found.fits() && found.bound_bytes > *found.capacity_bytes) {
      text += ", does not fit: no layout can\n";
    } else if (!found.fits()) {
      text += ", found no layout that fits; try a longer --time-limit\n";
    }
  }
  return text + fmt::format("{:<10}{:.3f}\n", "seconds", found.seconds);
}

}  // namespace

CLI::App* add_layout(CLI::App& app, LayoutOptions& options) {
  CLI::App* verb = app.add_subcommand("layout", "Place blocks with lifetimes in few bytes");
  verb->add_option("file", options.path,
                   "The blocks, as CSV: the first line names the columns id, lower, upper and size "
                   "in any order. A block is live from tick lower to before tick upper")
      ->required();
  verb->add_option("--capacity", options.capacity,
                   "Stop at the first layout that fits in these bytes, such as 1MiB");
  verb->add_option("--alignment", options.alignment_bytes,
                   "Make every offset a multiple of this power of two")
      ->capture_default_str();
  verb->add_option("--time-limit", options.time_limit_s, "Stop the search after these seconds")
      ->capture_default_str();
  verb->add_option("--seed", options.seed, "Seed of the search's random choices")
      ->check(seed_number())
      ->capture_default_str();
  verb->add_flag("--closed", options.is_closed, "Blocks are live at tick upper too");
  verb->add_flag("--json", options.as_json, "Print JSON, offsets included");
  verb->add_option("--output", options.output, "Write this CSV: id,lower,upper,size,offset");
  verb->footer(
      "Prints the peak (most bytes live at once: no layout is lower), the height of the layout,\n"
      "and whether the height is proven optimal.\n"
      "Exit code: 0 the layout fits, 1 found no layout that fits, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep layout blocks.csv --capacity 1MiB --output offsets.csv");
  return verb;
}

Answer run_layout(const LayoutOptions& options) {
  constexpr double kMostSeconds = 1e9;
  constexpr int64_t kMostAlignment = int64_t{1} << 30U;
  const int64_t alignment = options.alignment_bytes;
  if (alignment < 1 || alignment > kMostAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    return bad_input({ErrorCode::BadInput,
                      fmt::format("--alignment is {}, not a power of two up to 2^30", alignment)});
  }
  if (!(options.time_limit_s > 0 && options.time_limit_s <= kMostSeconds)) {
    return bad_input({ErrorCode::BadInput,
                      fmt::format("--time-limit is {}; give seconds, above 0 and at most {:.0f}",
                                  options.time_limit_s, kMostSeconds)});
  }
  std::optional<int64_t> capacity_bytes;
  if (!options.capacity.empty()) {
    const Result<int64_t> parsed = parse_bytes(options.capacity);
    if (!parsed.has_value()) return bad_input(parsed.error());
    capacity_bytes = *parsed;
  }
  const Result<BlockFile> file = load_blocks(options.path);
  if (!file.has_value()) return bad_input(file.error());
  const Status checked = check_folder(options.output);  // Ask before searching for seconds.
  if (!checked.has_value()) return bad_input(checked.error());
  const Found found = find_layout(*file, capacity_bytes, options);
  if (!options.output.empty()) {
    const Status written =
        save_text(options.output, print_offsets(*file, found.layout.offset_bytes));
    if (!written.has_value()) return bad_input(written.error());
  }
  return Answer{found.fits() ? ExitCode::Yes : ExitCode::No,
                options.as_json ? print_json(*file, found, options) : print_text(*file, found), ""};
}

}  // namespace fitstep
