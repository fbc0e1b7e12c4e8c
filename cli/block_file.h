// Files of blocks, as layout problems are published: a header, then one line per block.
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

// Errors name the line: a column that is missing, twice there or unknown, too few or too many
// fields, no number, a negative size, upper below lower, more than 2^60 bytes in one block or 2^62
// in all.
Result<BlockFile> parse_blocks(std::string_view text);

// The same columns, and where each block lies.
std::string print_offsets(const BlockFile& file, const std::vector<int64_t>& offset_bytes);

}  // namespace fitstep
