// The bytes that packing saves in a plan, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/text.h"
#include "fitstep/program/program.h"
#include "fitstep/report/packing_saved.h"

namespace fitstep {

// Empty if nothing is packed.
std::string print_packed(const Program& program, const std::vector<PackedValue>& packed);

Json to_json(const Program& program, const std::vector<PackedValue>& packed);

}  // namespace fitstep
