// What a plan decided for its storages, in words: totals, and who matters most of each kind, and
// why.
#pragma once

#include <string>
#include <vector>

#include "cli/text.h"
#include "fitstep/base/id.h"
#include "fitstep/program/program.h"
#include "fitstep/report/choices.h"

namespace fitstep {

// A storage by its name, shortened, or by its number where it has none.
std::string label_of(const Program& program, StorageId storage);

// "made again once in 12.00 us; unused for 3.200 ms until aten::mm (net.py:12)"
std::string why(const Program& program, const StorageChoice& choice);

// A line for each kind of choice.
std::string print_totals(const std::vector<StorageChoice>& choices);

// Those that are kept, recomputed and offloaded and weigh most (bytes times gap), each with why.
std::string print_largest(const Program& program, const std::vector<StorageChoice>& choices);

Json to_json(const Program& program, const std::vector<StorageChoice>& choices);

}  // namespace fitstep
