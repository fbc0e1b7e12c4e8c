// A plan's choices for its storages in words: totals, and for each choice the storages that matter
// most and the reason.
#pragma once

#include <string>
#include <vector>

#include "cli/text.h"
#include "fitstep/base/id.h"
#include "fitstep/program/program.h"
#include "fitstep/report/choices.h"

namespace fitstep {

// A storage's name, shortened; its number if it has no name.
std::string label_of(const Program& program, StorageId storage);

// "recomputed once in 12.00 us; unused for 3.200 ms until aten::mm (net.py:12)"
std::string why(const Program& program, const StorageChoice& choice);

// A line for each kind of choice.
std::string print_totals(const std::vector<StorageChoice>& choices);

// For keep, recompute and offload: the storages with the most bytes x time unused, and why.
std::string print_largest(const Program& program, const std::vector<StorageChoice>& choices);

Json to_json(const Program& program, const std::vector<StorageChoice>& choices);

}  // namespace fitstep
