#include "tests/support/byte_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_memory.h"

namespace fitstep {

const Form* form_in(const Program& program, const Run& run) {
  if (run.op.is_none() || run.op.index() >= program.ops.size()) return nullptr;
  const std::vector<Form>& forms = program.ops[run.op.index()].forms;
  if (run.form < 0 || static_cast<size_t>(run.form) >= forms.size()) return nullptr;
  return &forms[static_cast<size_t>(run.form)];
}

BlockEnds block_ends(const Program& program, const Plan& plan, int64_t arena_bytes) {
  BlockEnds ends(arena_bytes);
  for (const Residency& residency : plan.residencies) {
    const StorageId storage = residency.storage;
    if (storage.is_none() || storage.index() >= program.storages.size()) continue;
    ends.add(residency.tier.value(), residency.offset_bytes,
             program.storages[storage.index()].size_bytes);
  }
  for (const std::vector<Action>& lane : plan.lanes) {
    for (const Action& action : lane) {
      const Form* form = form_in(program, action.run);
      if (form == nullptr) continue;
      const std::vector<int64_t>& offsets = action.run.request_offset_bytes;
      for (size_t i = 0; i < std::min(offsets.size(), form->requests.size()); ++i) {
        ends.add(kDeviceTier.value(), offsets[i], form->requests[i].size_bytes);
      }
    }
  }
  ends.sort();
  return ends;
}

}  // namespace fitstep
