// Stage: where a policy's decisions become a candidate. It decides nothing.
//
//   keep all -> forms -> layers -> [ policy: which gaps leave, and when ] -> timing -> layout
//
// So plans of a policy differ from others in what they move and when, and in nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/planner/candidates.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/policies/layers.h"

namespace fitstep {

enum class FormRule { LeastScratch, Fastest };  // vDNN's (m) and (p).

enum class Inputs {
  FreedByLastUse,
  HeldByLayer,  // The input of a layer stays until all of its backward part is done.
};

// When copies down begin, where a gap does not say: a use that only reads may run beside one.
enum class Evicts { BehindLastUse, BesideLastUse };

class Stage {
 public:
  Stage(const Task& task, FormRule forms, Inputs inputs);

  const Task& task() const { return task_; }
  const Layers& layers() const { return layers_; }
  const std::vector<int64_t>& load_bytes() const { return base_.space.live_bytes; }
  const std::vector<int64_t>& duration_ps() const { return duration_ps_; }

  // Of blocks, in the capacity of the request; very much without one.
  int64_t limit_bytes() const;

  // The candidate in which these gaps leave, placed: within the capacity, or else as low as copies
  // in their order allow. Nothing if the tiers below have no room for them. `says`: what the policy
  // did, for the certificate.
  std::optional<Candidate> play(std::vector<Gap> gaps, std::string says,
                                Evicts evicts = Evicts::BehindLastUse) const;

  // The candidate in which nothing leaves, placed.
  Candidate keep(std::string says) const;

  // The candidate with faster forms where they fit; nothing if there are none.
  std::optional<Candidate> with_faster_forms(const Candidate& candidate) const;

  // Whether it is within the capacity.
  bool fits(const Candidate& candidate) const;

 private:
  void hold_inputs(Schedule& schedule) const;
  void place(Candidate& candidate) const;
  int64_t least_limit_bytes(const std::vector<Gap>& gaps) const;

  const Task& task_;
  const Inputs inputs_;
  Candidate base_;
  Layers layers_;
  std::vector<int64_t> duration_ps_;  // By instance.
};

}  // namespace fitstep
