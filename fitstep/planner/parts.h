// Parts of the planner that can be left out to see what each gives and costs
// (benchmarks/planner/ablation.py, docs/ablation.md). They can be only in a build with
// -DFITSTEP_ABLATION=ON, where the environment variable FITSTEP_WITHOUT names those that are left
// out, with commas between; in any other build asking costs nothing.
#pragma once

#include <string_view>

namespace fitstep {

#ifdef FITSTEP_ABLATION
bool has(std::string_view part);
#else
constexpr bool has(std::string_view /*part*/) { return true; }
#endif

}  // namespace fitstep
