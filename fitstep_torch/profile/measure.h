// Runs one call alone on made-up data: what it requests, how long it takes, what it makes.
//
// Where there is room, in the part of an arena that is free between steps, inputs, results and
// scratch lie there, so that a budget holds while a call is measured.
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

  // An argument where the one result of the call is put; none: the result has its own place.
  using Overwritten = std::optional<size_t>;

  // Time, requests, real geometry, whether it repeats its bits, also where its scratch held other
  // bytes before (on a CPU). Draws no number from the user's
  // generators. Arguments in `unread`, of which the kernel looks at the geometry alone, have no
  // bytes of their own. Errors: the kernel throws; it requests other memory from run to run; it
  // keeps some.
  Result<Measurement> measure(const TorchCall& call, Overwritten overwritten,
                              const std::vector<size_t>& unread) const;

  // A hash of every result's bytes, in order (0 for results that the call does not make), when the
  // inputs are made from the same seed every time; for a call that draws, one of the generators'
  // states after it too. Floating-point inputs whose argument is in `poisoned` are NaN instead.
  // With one overwritten there is one hash more, of whether the result lies there.
  Result<std::vector<uint64_t>> hash_results(const TorchCall& call,
                                             const std::vector<size_t>& poisoned,
                                             Overwritten overwritten = {},
                                             const std::vector<size_t>& unread = {}) const;

  // Whether inputs and results together fit into the room, if there is one.
  bool has_room_for(const TorchCall& call) const;

  // The same for the last of some calls that follow each other: what one of them makes, those
  // behind it find; the rest of their inputs is made up. What draws is the first.
  Result<std::vector<uint64_t>> hash_last_results(const std::vector<TorchCall>& calls) const;

 private:
  // Calls `todo` with what it requests served from the room, until one kind of inputs will do.
  Status in_room(const TorchCall& call, const std::function<Status(Fill)>& todo) const;
  Status in_room(const TorchCall& call, const std::function<Status(Fill)>& todo, Fill fill) const;
  Status run_timed(const TorchCall& call, Fill fill, Overwritten overwritten,
                   const std::vector<size_t>& unread, Measurement& measured) const;
  // Of one run, when many are given to the device before it is waited for: as in a step.
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
