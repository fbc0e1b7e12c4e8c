// A tape: one segment of a training step in PyTorch's own terms, as it was recorded.
//
// Operator, arguments, and for every tensor the storage that it lies in and its geometry there.
// Storages are numbered in order of appearance; views are no calls, as they touch no bytes.
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
  int32_t region = -1;  // Which call of an optimizer's step it is part of; -1 outside.
  std::shared_ptr<const TorchCall> joint = nullptr;  // What this one and those behind it split.
  int32_t origin = -1;  // Where it is a part of a recorded call: that one,
  int32_t part = -1;    // and the entry of its lists that it is for; -1 where that is all of them.
};

struct TapeStorage {
  std::string name;
  StorageKind kind = StorageKind::Temporary;
  bool is_persistent = false;
  bool is_visible = false;
  bool has_content_at_start = false;
  int64_t size_bytes = 0;
  int64_t born = -1;  // Index of the op that made it; -1 for those bound before the recording.
  int64_t dead = -1;  // Index of the first op that no longer finds it; -1 while it lives.
  std::optional<at::Tensor> literal;  // The real bytes of a literal.
  c10::Device device = c10::DeviceType::CPU;
};

struct Tape {
  std::vector<TapeOp> ops;
  std::vector<TapeStorage> storages;
  std::vector<TensorRef> outputs;  // What the step function returned.
};

// Numbers of the storages that some call writes; of those whose bytes some call reads.
std::set<int32_t> written_storages(const Tape& tape);
std::set<int32_t> read_storages(const Tape& tape);

// Those whose bytes at the end are not the program's alone: what `empty` found in memory may be in
// them.
std::set<int32_t> undefined_storages(const Tape& tape);

// Whether `empty` fills, mostly with NaN, as it does under deterministic algorithms.
bool kernels_fill_what_they_make();

// What `empty` makes is zero where it is read before it is filled: an arena has other bytes than
// the system's fresh memory, and rows of padding times zero may be NaN.
void zero_what_is_read(Tape& tape);

}  // namespace fitstep::torch_side
