// A tape: one segment of a training step in PyTorch's own terms, as it was recorded.
//
// A call is an operator with its arguments; a tensor is a storage number and a geometry. Storages
// are numbered in order of appearance. Views are not on the tape, because they touch no bytes.
//
//   call       aten::addmm   aten::relu_
//   storage    2 = f(0, 1)   2 = g(2)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct TapeOp {
  TorchCall call;
  Source source;
  int32_t region = -1;                               // Number of its optimizer step; -1 outside.
  std::shared_ptr<const TorchCall> joint = nullptr;  // The call that was split.
  int32_t origin = -1;  // Index of the recorded call that it is a part of.
  int32_t part = -1;    // The entry of that call's lists that it handles; -1: all entries.
};

struct TapeStorage {
  std::string name;
  StorageKind kind = StorageKind::Temporary;
  bool is_persistent = false;
  bool is_visible = false;
  bool has_content_at_start = false;
  int64_t size_bytes = 0;
  int64_t born = -1;  // Index of the op that made it; -1 for those bound before the recording.
  int64_t dead = -1;  // Index of the first op after its death; -1 while it lives.
  std::optional<at::Tensor> literal;  // The real bytes of a literal.
  c10::Device device = c10::DeviceType::CPU;
};

struct Tape {
  std::vector<TapeOp> ops;
  std::vector<TapeStorage> storages;
  std::vector<TensorRef> outputs;  // What the step function returned.
};

// Numbers of the storages that a call writes, and of those whose bytes a call reads.
std::set<int32_t> written_storages(const Tape& tape);
std::set<int32_t> read_storages(const Tape& tape);

// Storages that may still hold uninitialised bytes (of `empty`) at the end of the tape.
std::set<int32_t> undefined_storages(const Tape& tape);

// Whether `empty` fills its tensor, mostly with NaN (under deterministic algorithms).
bool kernels_fill_what_they_make();

// Replaces `empty` by zeros where a tensor is read before it is filled. Fresh memory of the system
// is mostly zero; an arena's is not, and padding rows times zero could become NaN.
void zero_what_is_read(Tape& tape);

}  // namespace fitstep::torch_side
