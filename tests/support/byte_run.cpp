#include "tests/support/byte_run.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_machine.h"

namespace fitstep {

namespace {

// Chooses the lane that goes on. A missing wait shows only if one copy is held back while all else
// runs; fair dice hardly ever do so. So three of four seeds give the lanes ranks, which change at a
// few moments only: a lane goes on only if no lane of a better rank can.
class Delays {
 public:
  Delays(uint64_t seed, size_t moves) : dice_(seed), is_fair_(seed % 4 == 0) {
    std::iota(rank_.begin(), rank_.end(), 0);
    std::ranges::shuffle(rank_, dice_);
    for (uint64_t i = 0; i < seed % 4; ++i) changes_.push_back(dice_() % (moves + 1));
  }

  size_t choose(const std::vector<size_t>& lanes) {
    if (is_fair_) return lanes[dice_() % lanes.size()];
    if (std::ranges::count(changes_, move_++) > 0) std::ranges::shuffle(rank_, dice_);
    return *std::ranges::min_element(lanes, {}, [&](size_t lane) { return rank_.at(lane); });
  }

 private:
  std::mt19937_64 dice_;
  bool is_fair_;
  std::array<int, kLaneCount> rank_{};
  std::vector<size_t> changes_;
  size_t move_ = 0;
};

size_t move_count(const Plan& plan) {
  size_t actions = 0;
  for (const std::vector<Action>& lane : plan.lanes) actions += lane.size();
  return 2 * actions;  // Each begins and ends.
}

}  // namespace

std::string damage(const Program& program, const Plan& plan, const ByteRun& options) {
  ByteMachine machine(program, plan, options.arena_bytes);
  Delays delays(options.seed, move_count(plan));
  while (machine.damage().empty()) {
    const std::vector<size_t> lanes = machine.movable();
    if (lanes.empty()) {
      machine.check_end();
      break;
    }
    machine.move(delays.choose(lanes));
  }
  return machine.damage();
}

}  // namespace fitstep
