#include "tests/support/byte_run.h"

#include <random>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_machine.h"

namespace fitstep {

std::string damage(const Program& program, const Plan& plan, const ByteRun& options) {
  ByteMachine machine(program, plan, options.arena_bytes);
  std::mt19937_64 dice(options.seed);
  while (machine.damage().empty()) {
    const std::vector<size_t> lanes = machine.movable();
    if (lanes.empty()) {
      machine.check_end();
      break;
    }
    machine.move(lanes[dice() % lanes.size()]);
  }
  return machine.damage();
}

}  // namespace fitstep
