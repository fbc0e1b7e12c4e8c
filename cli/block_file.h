// Files of blocks: published layout problems have this form. A header, then one line per block.
//
//   id,lower,upper,size         the columns may come in any order
//   a0,0,6,4                    live at ticks 0 .. 5: [lower, upper), 4 bytes
//   a1,1,5,2
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/layout.h"

namespace fitstep {

struct BlockFile {
  std::vector<std::string> ids;  // As written; one per block.
  std::vector<Block> blocks;     // Sizes and lifetimes may be empty.
};

// Every error names the line. Errors: a column is missing, unknown or named twice; a line has too
// few or too many fields; a field is not a number; a size is negative; `upper` is below `lower`; a
// block has more than 2^60 bytes, or all blocks have more than 2^62.
Result<BlockFile> parse_blocks(std::string_view text);

// The columns of the input and a column `offset`.
std::string print_offsets(const BlockFile& file, const std::vector<int64_t>& offset_bytes);

}  // namespace fitstep
