// The recorder turns one recorded operator call after another into a tape.
//
// A tape is one training step in PyTorch's own terms: operator, arguments, and for every tensor the
// storage it lies in and its geometry there. Storages are numbered in order of appearance; the
// recorder holds only weak references to them, so autograd steals gradients exactly as it does when
// nobody records, and a storage's death is seen at the next call.
//
//   call       aten::addmm   aten::relu_   aten::t       (a view: recorded, dropped by lowering)
//   storage    2 = f(0, 1)   2 = g(2)      alias of 1
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep_torch/call.h"

namespace fitstep::torch_side {

struct TapeOp {
  TorchCall call;
  Source source;
  int32_t region = -1;  // Which call of an optimizer's step it is part of; -1 outside.
  std::shared_ptr<const TorchCall> joint = nullptr;  // What this one and those behind it split.
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
  std::vector<TensorRef> outputs;                           // What the step function returned.
  std::vector<std::pair<TensorRef, TensorRef>> rebindings;  // (new content, its home).
};

// Numbers of the storages that some call writes; of those whose bytes some call reads.
std::set<int32_t> written_storages(const Tape& tape);
std::set<int32_t> read_storages(const Tape& tape);

class Recorder {
 public:
  // Declares the storage of `fake` before the recording. A second tensor of the same storage is
  // fine and changes nothing. Returns the storage's number.
  int32_t bind(const at::Tensor& fake, const TapeStorage& as);

  // Records a call that has just returned. Tensors in `arguments` and `results` are fakes.
  void record(TorchCall call, Source source, int32_t region);

  // The reference of a fake; a storage that was never seen becomes a new temporary.
  TensorRef reference(const at::Tensor& fake);

  // The number of a fake's storage; -1 if it was never seen.
  int32_t storage_of(const at::Tensor& fake) const;

  Tape& tape() { return tape_; }

 private:
  void sweep_dead();

  Tape tape_;
  std::unordered_map<c10::StorageImpl*, int32_t> number_of_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;  // By number.
  std::vector<int32_t> alive_;
};

}  // namespace fitstep::torch_side
