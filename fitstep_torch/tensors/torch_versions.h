// What not every version of torch has. `python/fitstep/versions.py` names the versions, and has the
// rest of what depends on them.
//
//   torch            2.11    2.12 and newer
//   is_forgotten()   false   asks the slot
#pragma once

namespace fitstep::torch_side {

// Whether Python's object of a storage has no owner but the storage. Torch 2.11 has no such
// question; there the answer is no.
template <typename Slot>
bool is_forgotten(const Slot& slot) {
  if constexpr (requires { slot.has_unique_reference(); }) {
    return slot.has_unique_reference();
  } else {
    return false;
  }
}

}  // namespace fitstep::torch_side
