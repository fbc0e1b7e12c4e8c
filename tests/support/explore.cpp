#include "tests/support/explore.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_machine.h"

namespace fitstep {
namespace {

constexpr int64_t kMostVisited = 200'000;

}  // namespace

Exploration explore(const Program& program, const Plan& plan, int64_t arena_bytes) {
  Exploration found;
  std::unordered_set<uint64_t> seen;
  std::vector<ByteMachine> open = {ByteMachine(program, plan, arena_bytes)};
  while (!open.empty()) {
    ByteMachine machine = std::move(open.back());
    open.pop_back();
    ++found.states;
    const std::vector<size_t> lanes = machine.movable();
    if (lanes.empty()) machine.check_end();
    for (const size_t lane : lanes) {
      if (!machine.damage().empty()) break;
      ByteMachine next = machine;
      next.move(lane);
      if (!next.damage().empty()) return {next.damage(), found.states};
      if (seen.insert(next.state()).second) open.push_back(std::move(next));
    }
    if (!machine.damage().empty()) return {machine.damage(), found.states};
    if (found.states == kMostVisited) return {"", found.states, open.empty()};
  }
  return found;
}

}  // namespace fitstep
