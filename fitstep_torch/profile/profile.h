// The profile: measures each distinct call alone, on made-up inputs.
//
//   signature --> inputs made from a seed --> warm run, then a few timed ones
//                                             requests inside the kernel (equal in all runs)
//                                             real geometry of the results (a meta kernel may be
//                                             wrong); claims of the operator rules, by bits
//
// One call at a time is in memory: in the arena's free part, if there is an arena. So the step's
// budget holds here too. Results are stored by signature. The caller saves them on disk per
// machine, torch build and thread count.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"

namespace fitstep::torch_side {

struct MeasuredRequest {
  int64_t size_bytes = 0;
  Interval live;        // In the kernel's own sequence of requests and releases.
  int32_t result = -1;  // Index among the call's result tensors; -1 for scratch.
};

struct Measurement {
  int64_t time_ps = 0;
  bool draws = false;          // Changes its generator's state.
  bool is_repeatable = true;   // Two runs make equal bits.
  bool is_any_thread = false;  // A worker thread requested memory.
  std::vector<MeasuredRequest> requests;
  std::vector<TensorRef> results;     // Real geometry; `storage` is -1.
  std::vector<int64_t> result_bytes;  // Size of each result's storage.
  std::vector<std::string> refuted;   // Claims that do not hold for this signature.
};

class Profile {
 public:
  using Progress = std::function<void(size_t done, size_t all)>;

  // Measures calls that are not known yet, and sets time and requests of every form. Adds refuted
  // claims to `claims`; if there are new ones, lower the tape again. Runs calls in `room`, a part
  // of the arena that nothing else may use meanwhile, or in ordinary memory if the room is too
  // small. Errors name op, file and line.
  Status apply(StepProgram& step, Claims& claims, TorchDevice& device, std::span<char> room,
               const Progress& progress);

  // Lets results take the address of an input of their call where their bits stay equal.
  Status add_in_place(StepProgram& step, TorchDevice& device, std::span<char> room);

  // Gives convolutions on a GPU forms with less workspace and equal bits (less_scratch.cpp).
  Status add_less_scratch(StepProgram& step, TorchDevice& device, std::span<char> room);

  // By geometry_text(): calls whose real results had another geometry than the recorded one. Filled
  // by apply(); if it is not empty, preview again.
  const std::map<std::string, Measurement>& corrections() const { return corrections_; }

  // Operators that could not be measured because their kernels refuse all made-up data. Steps run
  // them between segments; preview again.
  bool is_unmeasured(const std::string& name) const { return unmeasured_.contains(name); }
  bool has_unmeasured() const { return !unmeasured_.empty(); }
  std::set<std::string> corrected() const;  // Keys of both: geometry_text(), operator names.

  // Call when a preview begins: it uses all corrections known by now.
  void begin_preview();

  // All measurements as text by signature, for the file that the caller writes.
  std::map<std::string, std::string> save() const;
  void load(const std::map<std::string, std::string>& saved);  // Skips what it cannot read.

 private:
  class Applying;
  class LessScratch;

  std::map<std::string, Measurement> known_;
  std::set<std::string> ran_;  // Signatures that have run in this process.
  std::map<std::string, Measurement> corrections_;
  std::set<std::string> unmeasured_;
  std::set<std::string> applied_;  // Corrections known when the preview began.
};

// Lowers and measures the tape, again without refuted claims, until no new claim is refuted.
Result<StepProgram> lower_and_measure(const Tape& tape, Profile& profile, TorchDevice& device,
                                      std::span<char> room, const Profile::Progress& progress);

}  // namespace fitstep::torch_side
