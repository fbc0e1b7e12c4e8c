#include "fitstep/plan/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

int64_t whole_units(int64_t bytes, int64_t unit_bytes) { return bytes / unit_bytes * unit_bytes; }

// split_budget() without rounding the arena to whole blocks.
Budget split(int64_t budget_bytes, const BesideArena& beside) {
  constexpr int64_t kLeastSmallBytes = 256;
  constexpr int64_t kMostSmallBytes = int64_t{64} << 10;
  const int64_t small_tensor_bytes = whole_units(budget_bytes / 1000, kAlignmentBytes);
  Budget parts{
      .budget_bytes = budget_bytes,
      .external_bytes = beside.external_bytes,
      .reserve_bytes = whole_units(budget_bytes / 100, beside.alignment_bytes),
      .small_tensor_bytes = std::clamp(small_tensor_bytes, kLeastSmallBytes, kMostSmallBytes),
      .staging_bytes = beside.pieces * piece_bytes(budget_bytes)};
  parts.capacity_bytes = budget_bytes - parts.external_bytes - parts.reserve_bytes -
                         parts.small_tensor_bytes - parts.staging_bytes;
  return parts;
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Error not_a_budget(std::string_view given, std::string_view why) {
  return {ErrorCode::BadInput, fmt::format("{} {}", given, why)};
}

// Reads "75%".
Result<WrittenBudget> parse_share(std::string_view text, std::string_view given) {
  constexpr double kMostPercent = 1000;
  const std::string_view number = without_blanks(text.substr(0, text.size() - 1));
  double percent = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), percent);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
  if (is_number && percent > 0 && percent <= kMostPercent) return WrittenBudget{.percent = percent};
  return not_a_budget(given, "is not a valid share; write one from above 0% to 1000%, such as 75%");
}

}  // namespace

int64_t WrittenBudget::of(int64_t plain_peak_bytes) const {
  if (percent == 0) return bytes;
  return static_cast<int64_t>(static_cast<double>(plain_peak_bytes) * percent / 100);
}

Result<WrittenBudget> parse_budget(std::string_view text, std::string_view given) {
  constexpr int64_t kMostBytes = int64_t{1} << 48;  // A process can address no more.
  text = without_blanks(text);
  if (text.ends_with('%')) return parse_share(text, given);
  const Result<int64_t> bytes = parse_bytes(text);
  if (!bytes) return Error{bytes.error().code, fmt::format("{}: {}", given, bytes.error().message)};
  if (*bytes <= 0)
    return not_a_budget(given, "is not a valid budget; write for example 6GiB or 60%");
  if (*bytes > kMostBytes) {
    return not_a_budget(given, "is above the largest budget, " + format_bytes(kMostBytes));
  }
  return WrittenBudget{.bytes = *bytes};
}

Budget split_budget(int64_t budget_bytes, const BesideArena& beside) {
  Budget parts = split(budget_bytes, beside);
  if (parts.capacity_bytes > 0) {
    parts.capacity_bytes = whole_units(parts.capacity_bytes, beside.alignment_bytes);
  }
  return parts;
}

int64_t budget_for(int64_t height_bytes, const BesideArena& beside) {
  const int64_t unit_bytes = beside.alignment_bytes;
  const int64_t wanted_bytes = whole_units(height_bytes + unit_bytes - 1, unit_bytes);
  int64_t budget_bytes = wanted_bytes + beside.external_bytes;
  while (true) {
    const int64_t missing_bytes = wanted_bytes - split(budget_bytes, beside).capacity_bytes;
    if (missing_bytes <= 0) return budget_bytes;
    budget_bytes += missing_bytes;  // The least: each byte of budget adds at most one to the arena.
  }
}

int64_t piece_bytes(int64_t budget_bytes) {
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  return std::clamp(whole_units(budget_bytes / 400, kDiskAlignmentBytes), kDiskAlignmentBytes,
                    kMostBytes);
}

int64_t external_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Storage& storage : program.storages) {
    const bool has_bytes = storage.kind != StorageKind::Generator;
    if (is_external(storage.kind) && has_bytes) bytes += storage.size_bytes;
  }
  return bytes;
}

BesideArena beside_arena(const Program& program, const Machine& machine) {
  const bool has_disk = machine.tiers.size() > kDiskTier.index();
  return {.external_bytes = external_bytes(program),
          .pieces = has_disk ? kStagingOfEvicted : 0,
          .alignment_bytes = program.alignment_bytes};
}

}  // namespace fitstep
