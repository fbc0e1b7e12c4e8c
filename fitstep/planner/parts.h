// Parts of the planner that you can switch off, to measure what each part gives and costs
// (benchmarks/planner/ablation.py, docs/explanation/ablation.md). Build with -DFITSTEP_ABLATION=ON
// and set for example FITSTEP_WITHOUT="holes,reorder". In any other build has() is always true and
// costs nothing.
#pragma once

#include <string_view>

namespace fitstep {

#ifdef FITSTEP_ABLATION
bool has(std::string_view part);
#else
constexpr bool has(std::string_view /*part*/) { return true; }
#endif

}  // namespace fitstep
