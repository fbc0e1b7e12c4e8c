// The reader of layout problems: any text is refused with a line, or is blocks whose own text means
// the same, and whose sum is no overflow.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "cli/block_file.h"
#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/layout.h"
#include "tests/fuzz/fuzz.h"

namespace fitstep {
namespace {

std::string print_blocks(const BlockFile& file) {
  std::string text = "id,lower,upper,size\n";
  for (size_t i = 0; i < file.blocks.size(); ++i) {
    const Block& block = file.blocks[i];
    fmt::format_to(std::back_inserter(text), "{},{},{},{}\n", file.ids[i], block.live.begin,
                   block.live.end, block.size_bytes);
  }
  return text;
}

}  // namespace
}  // namespace fitstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fitstep;  // NOLINT(google-build-using-namespace): the body of a main.
  const Result<BlockFile> file = parse_blocks(fuzz_text(data, size));
  if (!file.has_value()) {
    FITSTEP_CHECK(file.error().message.starts_with("line "), "an error names the line");
    return 0;
  }
  const Result<BlockFile> again = parse_blocks(print_blocks(*file));
  FITSTEP_CHECK(again.has_value() && print_blocks(*again) == print_blocks(*file),
                "printed and read is equal");
  int64_t sum_bytes = 0;
  for (const Block& block : file->blocks) {
    FITSTEP_CHECK(block.size_bytes >= 0 && block.live.begin <= block.live.end, "a sane block");
    sum_bytes += block.size_bytes;
  }
  FITSTEP_CHECK(sum_bytes <= int64_t{1} << 62U, "no height overflows");
  return 0;
}
