// What packing saved in a plan, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/text.h"
#include "fitstep/program/program.h"
#include "fitstep/report/packing_saved.h"

namespace fitstep {

// Empty where nothing is packed.
std::string print_packed(const Program& program, const std::vector<PackedValue>& packed);

Json to_json(const Program& program, const std::vector<PackedValue>& packed);

}  // namespace fitstep
