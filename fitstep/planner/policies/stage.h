// Stage: turns a policy's decisions into a candidate. It decides nothing itself.
//
//   keep all -> forms -> layers -> [ policy: which gaps are used, and when ] -> timing -> layout
//
// So plans of two policies differ only in which values they copy and when.
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
  HeldByLayer,  // The input of a layer stays until the layer's backward part has ended.
};

// When copies down begin, unless the gap says. A copy may run beside a use that only reads.
enum class Evicts { BehindLastUse, BesideLastUse };

class Stage {
 public:
  Stage(const Task& task, FormRule forms, Inputs inputs);

  const Task& task() const { return task_; }
  const Layers& layers() const { return layers_; }
  const std::vector<int64_t>& load_bytes() const { return base_.space.live_bytes; }
  const std::vector<int64_t>& duration_ps() const { return duration_ps_; }

  // The capacity of the request without homes; a very large number if there is no capacity.
  int64_t limit_bytes() const;

  // The placed candidate in which the values of these gaps are evicted: within the capacity if
  // possible, otherwise as low as the copies in their order allow. Nothing if the tiers below have
  // no room for them. `says`: what the policy did, for the certificate.
  std::optional<Candidate> play(std::vector<Gap> gaps, std::string says,
                                Evicts evicts = Evicts::BehindLastUse) const;

  // The placed candidate that evicts nothing.
  Candidate keep(std::string says) const;

  // The candidate with faster forms where they fit; nothing if no form changes.
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
