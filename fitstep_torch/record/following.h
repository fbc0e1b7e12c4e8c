// Following: between the follower and Python.
//
//   Python ──operators──> follower ──flush()──> Python runs what is recorded
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fitstep_torch/record/segment.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// What the follower needs of Python. May throw.
class Following {
 public:
  Following() = default;
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;
  virtual ~Following() = default;

  // Runs what is recorded, so that hollow tensors have their bytes. False in a preview, where
  // nothing can run: then the answer is made up.
  virtual bool flush(const std::string& operator_name) = 0;
  virtual Source source() = 0;
  // Has Python drop what only cycles hold: what is young, or all.
  virtual void collect(bool is_young) = 0;
  // Raises the error for an operator that cannot be recorded.
  virtual void refuse(const std::string& operator_name, const std::string& why) = 0;
};

// What a segment was when it ended.
struct EndedSegment {
  std::shared_ptr<Segment> segment;  // Null where nothing was recorded.
  bool is_new = false;
  std::vector<ChangedNumber> changed;
  std::vector<at::Generator> generators;                       // In the order of the segment's.
  std::vector<at::Tensor> externals;                           // In the order of externals().
  std::vector<std::optional<at::Tensor>> held;                 // Copies of those that numpy has.
  std::vector<std::pair<at::Tensor, at::Tensor>> lent_writes;  // Where, and where it is in a copy.
  std::vector<std::pair<int32_t, at::Tensor>> survivors;  // Made here, and somebody holds them.
  // Generators that Python has seeded behind the last draw: as they were for the draws, and
  // since.
  std::vector<std::tuple<at::Generator, std::vector<char>, std::vector<char>>> seeded;
  // Of an audit: what externals held before the first write, by place among them, where it may be
  // written; and generators before and behind what was drawn.
  std::vector<std::optional<PartCopy>> starts;
  std::vector<std::tuple<at::Generator, std::vector<char>, std::vector<char>>> drawn;
  bool has_raised = false;  // Of an audit: a kernel, which may have written half of what it writes.
  at::Tensor overwritten;   // What recorded operators wait to read was, past all operators.
};

}  // namespace fitstep::torch_side
