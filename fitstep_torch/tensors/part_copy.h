// A copy of those parts of a storage that somebody has asked for.
//
//   storage   [ .............. 400 MB .............. ]    a data set; a step reads three rows of it
//   copy      [ --- ab -------- cd ------------- ef - ]    each where it is there; no memory
//   between
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
  explicit PartCopy(const at::Tensor& of);  // Of its storage; nothing is copied yet.

  void add(const at::Tensor& tensor);    // What it reaches in that storage and is not there yet.
  void add_all();                        // All of the storage.
  void renew(const at::Tensor& tensor);  // What it reaches, whether that is there or not.
  // Whether what `tensor` reaches is there, or is not copied yet. REQUIRES: on the host.
  bool is_as(const at::Tensor& tensor) const;

  int64_t size_bytes() const;  // Of memory that it takes.

  at::Tensor at(const at::Tensor& tensor) const;  // The same place in the copy.
  // The same parts of another storage that is as large; and into one, and whether they are equal.
  PartCopy again(const at::Tensor& of) const;
  void put_into(const at::Tensor& other) const;
  bool is_in(const at::Tensor& other) const;

 private:
  void take(int64_t from, int64_t to);
  // `act(from, to)` for what is there between two places, or is not there.
  void each_there(int64_t from, int64_t to, const std::function<void(int64_t, int64_t)>& act) const;

  at::Tensor original_;               // Bytes of the storage.
  at::Tensor copy_;                   // As many.
  std::map<int64_t, int64_t> there_;  // First bytes, and those behind the last; none touch.
};

// Memory of somebody else in which content has changed within a segment. From then on what is there
// counts as new at each call that meets it: else the programs of a buffer that is filled again and
// again would differ by whether the new content happened to be the old one. Not in previews: two
// must record the same.
class Refilled {
 public:
  void begin_segment();
  // Whether what a call meets there counts as something else than `held`.
  bool is_new(const at::Tensor& tensor, const PartCopy& held);

 private:
  // Weak references keep the addresses from being used again.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> of_;
};

}  // namespace fitstep::torch_side
