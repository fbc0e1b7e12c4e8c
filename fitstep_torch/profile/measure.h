// Runs one call alone on made-up data: what it requests, how long it takes, what it makes.
//
// Inputs, results and workspace lie in the part of an arena that is free between steps, if they
// fit. So the budget holds while a call is measured.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fitstep_torch/profile/made_up.h"
#include "fitstep_torch/profile/profile.h"

namespace fitstep::torch_side {

class OfferedPlace;

// REQUIRES: the device's allocator is in place. `size_bytes` by storage number.
class Bench {
 public:
  Bench(std::vector<int64_t> size_bytes, const Workplace& place)
      : size_bytes_(std::move(size_bytes)), place_(place) {}

  // The argument whose address the only result of the call gets; none: an address of its own.
  using Overwritten = std::optional<size_t>;

  // Returns time, memory requests, real geometry, and whether two runs make equal bits, also with
  // other bytes in fresh memory (on a CPU). Leaves the user's generators unchanged. Arguments in
  // `unread`, of which the kernel reads only the geometry, have no bytes of their own. Errors: the
  // kernel throws, requests different memory from run to run, or keeps memory.
  Result<Measurement> measure(const TorchCall& call, Overwritten overwritten,
                              const std::vector<size_t>& unread) const;

  // A hash of each result's bytes, in order (0 for a result that the call does not make). Inputs
  // are equal every time. A call that draws has one more hash, of the generators' states after it.
  // With `overwritten` there is one more, of whether the result took the offered address.
  // Floating-point inputs whose argument is in `poisoned` are NaN.
  Result<std::vector<uint64_t>> hash_results(const TorchCall& call,
                                             const std::vector<size_t>& poisoned,
                                             Overwritten overwritten = {},
                                             const std::vector<size_t>& unread = {}) const;

  // Whether inputs and results together fit into the room; true without a room.
  bool has_room_for(const TorchCall& call) const;

  // Hashes of the last of several calls. A call gets the results of earlier calls as inputs; its
  // other inputs are made up. Only the first call may draw.
  Result<std::vector<uint64_t>> hash_last_results(const std::vector<TorchCall>& calls) const;

 private:
  // Calls `todo` with kinds of inputs until one succeeds; its requests are served from the room.
  Status in_room(const TorchCall& call, const std::function<Status(Fill)>& todo) const;
  Status in_room(const TorchCall& call, const std::function<Status(Fill)>& todo, Fill fill) const;
  Status run_timed(const TorchCall& call, Fill fill, Overwritten overwritten,
                   const std::vector<size_t>& unread, Measurement& measured) const;
  // Time of one run when many are queued on the device before waiting, as in a step.
  Result<int64_t> queued_ps(const TorchCall& call, const MadeUpInputs& inputs,
                            const OfferedPlace& offered) const;
  Status run_hashed(const TorchCall& call, Fill fill, const std::vector<size_t>& poisoned,
                    Overwritten overwritten, const std::vector<size_t>& unread,
                    std::vector<uint64_t>& hashes) const;
  Status run_chain(const std::vector<TorchCall>& calls, Fill fill,
                   std::vector<uint64_t>& hashes) const;

  std::vector<int64_t> size_bytes_;
  Workplace place_;
};

}  // namespace fitstep::torch_side
