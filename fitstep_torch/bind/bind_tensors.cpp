#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep_torch/bind/bindings.h"
#include "fitstep_torch/record.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// A weak reference to the storage, because one to the tensor forbids torch.utils.swap_tensors().
struct WeakStorage {
  c10::weak_intrusive_ptr<c10::StorageImpl> of;
};

// Saves and restores a tensor's autograd state, except gradient and hooks: requires_grad and
// grad_fn, also after an operator in place.
class Autograd {
 public:
  explicit Autograd(const at::Tensor& tensor) {
    const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr) return;
    is_trained_ = meta->requires_grad_;
    node_ = meta->grad_fn_;
    output_ = meta->output_nr_;
    if (const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
        view != nullptr && view->has_bw_view())
      version_ = view->get_attr_version();
  }

  void put_back(const at::Tensor& tensor) const {
    auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr) return;
    meta->requires_grad_ = is_trained_;
    meta->grad_fn_ = node_;
    meta->output_nr_ = output_;
    auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
    if (view != nullptr && view->has_bw_view()) view->set_attr_version(version_);
  }

 private:
  bool is_trained_ = false;
  decltype(torch::autograd::AutogradMeta::grad_fn_) node_;
  uint32_t output_ = 0;
  uint32_t version_ = 0;
};

}  // namespace

void bind_tensors(py::module_& module) {
  py::class_<Autograd>(module, "Autograd")
      .def(py::init<const at::Tensor&>())
      .def("put_back", &Autograd::put_back);
  module.def("make_ghost", [](const at::Tensor& like) {
    const TensorRef ref{
        .sizes = like.sizes().vec(), .strides = like.strides().vec(), .dtype = like.scalar_type()};
    return make_hollow(ref, reach_bytes(ref), like.device());
  });
  // Makes no Python object for the storage, because that would hold the storage.
  module.def("storage_id", [](const at::Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.storage().unsafeGetStorageImpl());
  });
  module.def("storage_begin", [](const at::Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.storage().data());
  });
  module.def("storage_bytes", [](const at::Tensor& tensor) { return tensor.storage().nbytes(); });
  module.def("has_storage", [](const at::Tensor& tensor) { return tensor.has_storage(); });
  module.def("is_lent", [](const at::Tensor& tensor) { return is_lent(tensor.storage()); });
  // For contiguous tensors of bytes. at::equal() takes six times as long on a CPU.
  module.def("same_bytes", [](const at::Tensor& a, const at::Tensor& b) {
    if (!a.is_cpu() || a.nbytes() != b.nbytes()) return at::equal(a, b);
    return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  });
  module.def("copy_over", [](const at::Tensor& to, const at::Tensor& of) {
    const BelowAutograd nobody_sees_it;
    to.copy_(of);
  });
  module.def("use_count", &holders_of);
  module.def("cores_of", &cores_of);
  module.def("bases_of", &bases_of);
  module.def("held_by", &held_by);
  module.def("is_held_by_core",
             [](const py::handle& one) { return THPVariable_Unpack(one.ptr()).use_count() > 1; });
  module.def("tensors_among", &tensors_among);
  py::class_<WeakStorage>(module, "WeakStorage")
      .def(py::init([](const at::Tensor& tensor) {
        return WeakStorage{.of = tensor.storage().getWeakStorageImpl()};
      }))
      .def("__call__", [](const WeakStorage& weak) -> std::optional<at::Tensor> {
        auto alive = weak.of.lock();
        return alive ? std::optional(bytes_over(c10::Storage(std::move(alive)))) : std::nullopt;
      });
  // Reads the gradients directly, because `.grad` of a view may raise an error.
  module.def("grads_of", [](const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> grads;
    for (const at::Tensor& tensor : tensors) {
      const auto* const of = torch::autograd::impl::get_autograd_meta(tensor);
      if (of != nullptr && of->grad_.defined()) grads.push_back(of->grad_);
    }
    return grads;
  });
  module.def("references_past_containers", &references_past_containers);
  module.def("track_anew", &track_anew);
  module.def("forget_lender", [](const at::Tensor& tensor) {
    tensor.storage().unsafeGetStorageImpl()->set_resizable(tensor.storage().allocator() != nullptr);
  });
  module.def("note_lender", [](const at::Tensor& tensor) {
    tensor.storage().unsafeGetStorageImpl()->set_resizable(false);
  });
  module.def("is_hollow", [](const at::Tensor& tensor) { return is_hollow(tensor); });
  module.def("is_guess", &Guesses::is_in);
  module.def("fill_hollow", [](const at::Tensor& hollow, const at::Tensor& with) {
    fill_hollow(*hollow.storage().unsafeGetStorageImpl(), *with.storage().unsafeGetStorageImpl());
  });
  py::class_<HollowFaults>(module, "HollowFaults").def(py::init<>()).def("take", [](HollowFaults&) {
    return HollowFaults::take();
  });
}

}  // namespace fitstep::torch_side
