// The profile: each distinct call is run alone, once for real.
//
//   signature --> inputs made from a seed --> warm run, then a few timed ones
//                                             requests inside the kernel (equal in all runs)
//                                             real geometry of the results (fakes are sometimes
//                                             wrong) claims of the operator rules, by bits
//
// One call at a time is in memory, in what the arena has free once there is one, so the budget of a
// step holds here too. Results are kept by
// signature; the caller keeps them on disk per machine, torch build and thread count.
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
  bool draws = false;          // Moved its generator.
  bool is_repeatable = true;   // The same bits in two runs.
  bool is_any_thread = false;  // Some request came from a worker thread.
  std::vector<MeasuredRequest> requests;
  std::vector<TensorRef> results;     // Real geometry; `storage` is -1.
  std::vector<int64_t> result_bytes;  // Size of each result's storage.
  std::vector<std::string> refuted;   // Claims that do not hold for this signature.
};

class Profile {
 public:
  using Progress = std::function<void(size_t done, size_t all)>;

  // Measures what is not known yet and fills in time and requests of every form. `claims` gains
  // what is refuted; then the tape has to be lowered again. Errors name op, file and line.
  // Works on the device, in `room` of its arena, which nothing else may use meanwhile, and in
  // ordinary memory if it is too small.
  Status apply(StepProgram& step, Claims& claims, TorchDevice& device, std::span<char> room,
               const Progress& progress);

  // Lets results lie where inputs of their calls lie, as far as that leaves their bits as they are.
  Status add_in_place(StepProgram& step, TorchDevice& device, std::span<char> room);

  // Gives convolutions of a GPU forms with less scratch and the same bits (less_scratch.cpp).
  Status add_less_scratch(StepProgram& step, TorchDevice& device, std::span<char> room);

  // Calls, by geometry_text(), whose foreseen results had another geometry than the real ones:
  // capture again with these. Filled by apply().
  const std::map<std::string, Measurement>& corrections() const { return corrections_; }

  // Operators that could not be measured, as their kernels refuse all data that is made up for
  // them: steps run them between segments. Capture again with these, too.
  bool is_unmeasured(const std::string& name) const { return unmeasured_.contains(name); }
  bool has_unmeasured() const { return !unmeasured_.empty(); }
  std::set<std::string> corrected() const;  // By geometry_text(), and names of operators.

  // A capture begins: corrections that are known now are in what it records.
  void begin_capture();

  // What is known, as text by signature; for the file that the caller keeps.
  std::map<std::string, std::string> save() const;
  void load(const std::map<std::string, std::string>& saved);  // Skips what it cannot read.

 private:
  class Applying;
  class LessScratch;

  std::map<std::string, Measurement> known_;
  std::set<std::string> ran_;  // Signatures whose kernels a GPU has loaded for us.
  std::map<std::string, Measurement> corrections_;
  std::set<std::string> unmeasured_;
  std::set<std::string> applied_;  // Whose corrections were known when it began.
};

// tape -> lower -> measure -> again without what was refuted, until nothing more is.
Result<StepProgram> lower_and_measure(const Tape& tape, Profile& profile, TorchDevice& device,
                                      std::span<char> room, const Profile::Progress& progress);

}  // namespace fitstep::torch_side
