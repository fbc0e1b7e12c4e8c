#include "cli/packing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/choices_text.h"
#include "cli/text.h"
#include "fitstep/base/bytes.h"
#include "fitstep/program/program.h"
#include "fitstep/report/packing_saved.h"

namespace fitstep {

std::string print_packed(const Program& program, const std::vector<PackedValue>& packed) {
  constexpr size_t kMostListed = 8;
  if (packed.empty()) return "";
  std::vector<PackedValue> largest = packed;
  std::ranges::stable_sort(largest, std::greater(), &PackedValue::saved_bytes);
  int64_t saved_bytes = 0;
  for (const PackedValue& one : packed) saved_bytes += one.saved_bytes();
  std::string text =
      fmt::format("\npacked: {}, which saves {} between uses\n",
                  format_count(packed.size(), "value", "values"), format_bytes(saved_bytes));
  for (size_t i = 0; i < std::min(largest.size(), kMostListed); ++i) {
    const PackedValue& one = largest[i];
    text += fmt::format("  {:>11}  {}: {} packed to {} for {}; packing takes {}\n",
                        format_bytes(one.saved_bytes()), label_of(program, one.value),
                        format_bytes(one.value_bytes), format_bytes(one.code_bytes),
                        format_seconds(one.gap_ps), format_seconds(one.pack_ps));
  }
  if (largest.size() <= kMostListed) return text;
  return text + fmt::format("  and {} smaller\n", largest.size() - kMostListed);
}

Json to_json(const Program& program, const std::vector<PackedValue>& packed) {
  Json json = Json::array();
  for (const PackedValue& one : packed) {
    json.push_back({{"storage", one.value.value()},
                    {"name", program.storages[one.value.index()].name},
                    {"packer", one.packer.value()},
                    {"value_bytes", one.value_bytes},
                    {"code_bytes", one.code_bytes},
                    {"saved_bytes", one.saved_bytes()},
                    {"gap_ps", one.gap_ps},
                    {"pack_ps", one.pack_ps}});
  }
  return json;
}

}  // namespace fitstep
