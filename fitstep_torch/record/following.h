// Following: what the follower calls in Python.
//
//   Python ──operators──> follower ──flush()──> Python runs the recorded operators
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

// Every function may throw.
class Following {
 public:
  Following() = default;
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;
  virtual ~Following() = default;

  // Runs the recorded operators, so that hollow tensors get their bytes. Returns false in a
  // preview, where nothing runs: the follower then makes the value up.
  virtual bool flush(const std::string& operator_name) = 0;
  virtual Source source() = 0;
  // Runs Python's garbage collector, on young objects or on all.
  virtual void collect(bool is_young) = 0;
  // Raises the error for an operator that cannot be recorded.
  virtual void refuse(const std::string& operator_name, const std::string& why) = 0;
};

// What end_segment() returns.
struct EndedSegment {
  std::shared_ptr<Segment> segment;  // Null where nothing was recorded.
  bool is_new = false;
  std::vector<ChangedNumber> changed;
  std::vector<at::Generator> generators;                       // In the order of the segment's.
  std::vector<at::Tensor> externals;                           // In the order of externals().
  std::vector<std::optional<at::Tensor>> held;                 // Copies, if numpy shares them.
  std::vector<std::pair<at::Tensor, at::Tensor>> lent_writes;  // (shared with numpy, its copy).
  std::vector<std::pair<int32_t, at::Tensor>> survivors;       // Made here and still referenced.
  // Generators seeded by Python after the last draw: (generator, state for the draws, state now).
  std::vector<std::tuple<at::Generator, std::vector<char>, std::vector<char>>> seeded;
  // In an audit: contents of written externals before the first write, in the order of externals();
  // and generators with their states before and after the draws.
  std::vector<std::optional<PartCopy>> starts;
  std::vector<std::tuple<at::Generator, std::vector<char>, std::vector<char>>> drawn;
  bool has_raised = false;  // In an audit: a kernel raised, perhaps after half of its writes.
  at::Tensor overwritten;   // numpy changed it before recorded operators have read it.
};

}  // namespace fitstep::torch_side
