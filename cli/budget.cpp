#include "cli/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int64_t kLeastHostBytes = 256;
constexpr int64_t kMostHostBytes = int64_t{64} << 10;

int64_t aligned(int64_t bytes) { return bytes / kAlignmentBytes * kAlignmentBytes; }

int64_t reserve_of(int64_t budget_bytes) { return aligned(budget_bytes / 100); }

int64_t host_of(int64_t budget_bytes) {
  return std::clamp(aligned(budget_bytes / 1000), kLeastHostBytes, kMostHostBytes);
}

int64_t inside_of(int64_t budget_bytes, int64_t outside_bytes) {
  return budget_bytes - outside_bytes - reserve_of(budget_bytes) - host_of(budget_bytes);
}

int64_t capacity_of(int64_t budget_bytes, int64_t outside_bytes) {
  const int64_t inside_bytes = inside_of(budget_bytes, outside_bytes);
  return inside_bytes < 0 ? inside_bytes : aligned(inside_bytes);
}

// Bytes of "75%"; `text` ends with the sign.
Result<int64_t> parse_share(std::string_view text, int64_t plain_peak_bytes) {
  constexpr double kMostPercent = 1000;
  const std::string_view number = text.substr(0, text.size() - 1);
  double percent = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), percent);
  if (plain_peak_bytes == 0) {
    return Error{ErrorCode::BadInput,
                 fmt::format("--budget {}: the program does not say when plain PyTorch holds what, "
                             "so there is no peak to share; give bytes, such as 6GiB",
                             text)};
  }
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
  if (is_number && percent > 0 && percent <= kMostPercent) {
    return static_cast<int64_t>(static_cast<double>(plain_peak_bytes) * percent / 100);
  }
  return Error{ErrorCode::BadInput,
               fmt::format("--budget {}: a share is more than 0% and at most 1000% of the plain "
                           "peak, such as 75%",
                           text)};
}

}  // namespace

int64_t external_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Storage& storage : program.storages) {
    const bool has_bytes = storage.kind != StorageKind::Generator;
    if (is_external(storage.kind) && has_bytes) bytes += storage.size_bytes;
  }
  return bytes;
}

Budget split_budget(int64_t budget_bytes, const Program& program) {
  Budget budget{.budget_bytes = budget_bytes,
                .plain_peak_bytes = plain_peak_bytes(program),
                .external_bytes = external_bytes(program),
                .reserve_bytes = reserve_of(budget_bytes),
                .host_bytes = host_of(budget_bytes)};
  budget.capacity_bytes = capacity_of(budget_bytes, budget.external_bytes);
  return budget;
}

Result<Budget> parse_budget(const std::string& text, const Program& program) {
  const Result<int64_t> bytes =
      text.ends_with('%') ? parse_share(text, plain_peak_bytes(program)) : parse_bytes(text);
  if (!bytes.has_value()) return bytes.error();
  if (*bytes <= 0) {
    return Error{ErrorCode::BadInput, fmt::format("--budget {} is no bytes at all", text)};
  }
  return split_budget(*bytes, program);
}

int64_t budget_for(int64_t height_bytes, int64_t external_bytes) {
  const int64_t wanted_bytes = aligned(height_bytes + kAlignmentBytes - 1);
  int64_t budget_bytes = wanted_bytes + external_bytes;
  while (true) {
    const int64_t missing_bytes = wanted_bytes - inside_of(budget_bytes, external_bytes);
    if (missing_bytes <= 0) return budget_bytes;
    budget_bytes += missing_bytes;  // No less would do: what is inside grows by one per byte.
  }
}

}  // namespace fitstep
