// A copy of some parts of a storage.
//
//   storage   [ .............. 400 MB .............. ]    a data set; a step reads three rows of it
//   copy      [ --- ab -------- cd ------------- ef - ]   same offsets; no memory between the parts
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

namespace fitstep::torch_side {

class PartCopy {
 public:
  explicit PartCopy(const at::Tensor& of);  // Of the tensor's storage; copies nothing yet.

  void add(const at::Tensor& tensor);    // Copies the tensor's bytes that are not copied yet.
  void add_all();                        // Copies the rest of the storage.
  void renew(const at::Tensor& tensor);  // Copies the tensor's bytes again.
  // Whether all copied bytes of `tensor` still equal the original. REQUIRES: on the host.
  bool is_as(const at::Tensor& tensor) const;

  int64_t size_bytes() const;  // Memory of the copied parts.

  at::Tensor at(const at::Tensor& tensor) const;  // The tensor's counterpart in the copy.
  // For another storage of the same size: copies the same parts from it; writes the parts into it;
  // compares the parts with it.
  PartCopy again(const at::Tensor& of) const;
  void put_into(const at::Tensor& other) const;
  bool is_in(const at::Tensor& other) const;

 private:
  void take(int64_t from, int64_t to);
  // Calls `act(begin, end)` for each copied range between `from` and `to`.
  void each_there(int64_t from, int64_t to, const std::function<void(int64_t, int64_t)>& act) const;

  at::Tensor original_;               // All bytes of the storage.
  at::Tensor copy_;                   // As many bytes.
  std::map<int64_t, int64_t> there_;  // Copied ranges: begin -> end; none touch.
};

// Lent storages whose content has changed within a segment. From then on every call that uses such
// a storage counts its content as new. Otherwise the program would depend on whether a buffer,
// filled again and again, happens to get equal content. Not used in previews: two previews must
// record the same.
class Refilled {
 public:
  void begin_segment();
  // Whether the tensor's content counts as new, compared with `held`.
  bool is_new(const at::Tensor& tensor, const PartCopy& held);

 private:
  // Weak references prevent reuse of the addresses.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> of_;
};

}  // namespace fitstep::torch_side
