#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep_torch/bind/bindings.h"
#include "fitstep_torch/operators.h"
#include "fitstep_torch/record.h"
#include "fitstep_torch/run.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

StorageKind kind_from(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(StorageKind::Generator); ++i) {
    if (name == to_string(static_cast<StorageKind>(i))) return static_cast<StorageKind>(i);
  }
  throw py::value_error("unknown storage kind: " + name);
}

// Calls a Python object with the methods of Following. Its exceptions pass through PyTorch like
// PyTorch's own errors.
class PythonFollowing final : public Following {
  template <class Act>
  auto call(const Act& act) {
    const py::gil_scoped_acquire acquire;
    try {
      return act();
    } catch (py::error_already_set& error) {
      error.restore();
      python_error as_torch_has_it;
      as_torch_has_it.persist();
      throw as_torch_has_it;
    }
  }

 public:
  explicit PythonFollowing(py::object object) : object_(std::move(object)) {}

  bool flush(const std::string& operator_name) override {
    return call([&] { return object_.attr("flush")(operator_name).cast<bool>(); });
  }
  Source source() override {
    return call([&] {
      const py::tuple found = object_.attr("source")();
      return Source{.module = found[0].cast<std::string>(),
                    .file = found[1].cast<std::string>(),
                    .line = found[2].cast<int32_t>()};
    });
  }
  void collect(bool is_young) override {
    call([&] {
      object_.attr("collect")(is_young);
      return true;
    });
  }
  void refuse(const std::string& operator_name, const std::string& why) override {
    call([&] {
      object_.attr("refuse")(operator_name, why);
      return true;
    });
  }

 private:
  py::object object_;
};

// The follower with the Python object that it calls.
struct Bound {
  Bound(const Profile& profile, py::object object)
      : python(std::move(object)), follower(profile, python) {}
  PythonFollowing python;
  Follower follower;
  std::unique_ptr<Homes> scratch;  // For trial runs before there is an arena.
};

// The free part of the arena, or a little memory if there is no arena yet.
Follower::Where where(Bound& bound, const std::shared_ptr<TorchDevice>& device,
                      const std::shared_ptr<Homes>& homes, int64_t bottom_bytes) {
  Follower::Where found{
      .device = device.get(), .room = {}, .is_home = [homes](const void* address) {
        return homes != nullptr && homes->place_of(address).has_value();
      }};
  constexpr int64_t kScratchBytes = int64_t{16} << 20;
  if (homes == nullptr && bound.scratch == nullptr) {
    auto made = Homes::open(device, {.size_bytes = kScratchBytes});
    if (made) bound.scratch = std::move(made).value();
  }
  if (homes != nullptr) {
    found.room = homes->free_above(bottom_bytes);
  } else if (bound.scratch != nullptr) {
    found.room = bound.scratch->free_above(0);
  }
  return found;
}

TapeStorage& storage(Segment& segment, int32_t number) {
  return segment.tape.storages.at(static_cast<size_t>(number));
}

void set_external(Segment& segment, int32_t number, const std::string& name,
                  const std::string& kind, bool is_home) {
  TapeStorage& of = storage(segment, number);
  of.name = name;
  of.kind = kind_from(kind);
  of.is_persistent = of.is_visible = is_home;
  segment.is_fixed.at(static_cast<size_t>(number)) = is_home;
}

// Makes the storage's content at the end the content of a home.
void adopt(Segment& segment, int32_t number, const std::string& name, const std::string& kind) {
  TapeStorage& of = storage(segment, number);
  of.name = name;
  of.kind = kind_from(kind);
  of.is_persistent = of.is_visible = true;
  segment.is_kept.at(static_cast<size_t>(number)) = true;
}

// Makes the storage's content at the end an output for the caller.
void give_out(Segment& segment, int32_t number) {
  segment.tape.outputs.push_back(segment.made.at(static_cast<size_t>(number)));
  segment.is_kept.at(static_cast<size_t>(number)) = true;
}

template <class Result, class... Args>
auto of_follower(Result (Follower::*method)(Args...)) {
  return [method](Bound& bound, Args... args) -> Result {
    return (bound.follower.*method)(std::forward<Args>(args)...);
  };
}

template <class Result, class... Args>
auto of_follower(Result (Follower::*method)(Args...) const) {
  return [method](const Bound& bound, Args... args) -> Result {
    return (bound.follower.*method)(std::forward<Args>(args)...);
  };
}

py::tuple end_segment(Bound& bound) {
  EndedSegment ended = bound.follower.end_segment();
  py::list seeded;
  for (const auto& [generator, before, after] : ended.seeded) {
    seeded.append(py::make_tuple(generator, py::bytes(before.data(), before.size()),
                                 py::bytes(after.data(), after.size())));
  }
  py::list generators;
  for (size_t i = 0; i < ended.generators.size() && i < ended.segment->generators.size(); ++i)
    generators.append(py::make_tuple(ended.segment->generators[i], ended.generators[i]));
  py::list drawn;
  for (const auto& [generator, before, after] : ended.drawn) {
    drawn.append(py::make_tuple(generator, py::bytes(before.data(), before.size()),
                                py::bytes(after.data(), after.size())));
  }
  return py::make_tuple(
      ended.segment, ended.is_new, ended.changed, ended.externals, ended.survivors, seeded,
      generators, ended.held, ended.lent_writes, ended.starts, drawn, ended.has_raised,
      ended.overwritten.defined() ? std::optional(ended.overwritten) : std::nullopt);
}

// A Python context manager: operators in its body run without the follower.
struct NotFollowed {
  bool was_followed = false;
};

void set_followed(bool is_followed) {
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, is_followed);
}

// Index of the first call in which two recordings differ, numbers included; -1 for none.
int64_t difference(const Segment& a, const Segment& b) {
  const size_t count = std::min(a.tape.ops.size(), b.tape.ops.size());
  for (size_t i = 0; i < count; ++i) {
    const TorchCall& left = a.tape.ops[i].call;
    const TorchCall& right = b.tape.ops[i].call;
    if (left.handle != right.handle) return static_cast<int64_t>(i);
    for (size_t k = 0; k < left.arguments.size(); ++k) {
      const Value& one = left.arguments[k];
      const Value& other = right.arguments[k];
      bool is_other = one.kind != other.kind || one.tensors.size() != other.tensors.size();
      for (size_t t = 0; t < one.tensors.size() && !is_other; ++t) {
        const auto& x = one.tensors[t];
        const auto& y = other.tensors[t];
        is_other = x.has_value() != y.has_value() ||
                   (x.has_value() && (x->sizes != y->sizes || x->storage != y->storage));
      }
      if (!is_other && one.kind == Value::Kind::Constant) {
        const auto differs = [&](int32_t, const c10::IValue&) { is_other = true; };
        is_other |= !are_alike(left.handle, k, one.constant, other.constant, differs);
      }
      if (is_other) return static_cast<int64_t>(i);
    }
  }
  return a.tape.ops.size() == b.tape.ops.size() ? -1 : static_cast<int64_t>(count);
}

// The last call on the tape that makes a storage or writes into it; -1 for none.
int64_t last_writer(const Segment& segment, int32_t number) {
  const auto has = [&](const Value& value) {
    return std::ranges::any_of(value.tensors, [&](const std::optional<TensorRef>& tensor) {
      return tensor.has_value() && tensor->storage == number;
    });
  };
  for (size_t i = segment.tape.ops.size(); i-- > 0;) {
    const TorchCall& call = segment.tape.ops[i].call;
    if (std::ranges::any_of(call.results, has)) return static_cast<int64_t>(i);
    for (size_t k = 0; k < call.arguments.size(); ++k) {
      if (is_written(call, k) && has(call.arguments[k])) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

void bind_segments(py::module_& module) {
  py::class_<ChangedNumber>(module, "ChangedNumber")
      .def_readonly("op", &ChangedNumber::op)
      .def_property_readonly("value",
                             [](const ChangedNumber& one) { return number_to_python(one.value); });
  py::class_<PartCopy>(module, "PartCopy")
      .def(py::init<const at::Tensor&>())
      .def("add", &PartCopy::add)
      .def("is_as", &PartCopy::is_as)
      .def("at", &PartCopy::at)
      .def("size_bytes", &PartCopy::size_bytes)
      .def("again", &PartCopy::again)
      .def("put_into", &PartCopy::put_into)
      .def("is_in", &PartCopy::is_in);
  py::class_<Segment, std::shared_ptr<Segment>>(module, "Segment")
      .def("set_external", &set_external)
      .def("adopt", &adopt)
      .def("give_out", &give_out)
      .def("expect_at", [](Segment& segment, size_t number,
                           uintptr_t address) { segment.home_address.at(number) = address; })
      .def("keep_state",
           [](Segment& segment, size_t number) { segment.is_state.at(number) = true; })
      .def("settle", &Segment::settle)
      .def("unbind", &Segment::unbind)
      .def("externals", &Segment::externals)
      .def("first_bytes",
           [](const Segment& segment, size_t number) {
             return segment.is_whole.at(number) ? std::nullopt
                                                : std::optional(segment.first_bytes.at(number));
           })
      .def("written", [](const Segment& segment) { return written_storages(segment.tape); })
      .def("read", [](const Segment& segment) { return read_storages(segment.tape); })
      .def("op_count", [](const Segment& segment) { return segment.tape.ops.size(); })
      .def("take", &Segment::take)
      .def("storage_bytes",
           [](Segment& segment, int32_t number) { return storage(segment, number).size_bytes; })
      .def("last_writer", &last_writer)
      .def("undefined", [](const Segment& segment) { return undefined_storages(segment.tape); })
      .def("is_like",
           [](const Segment& segment, const Segment& other) {
             return segment.tape.ops.size() == other.tape.ops.size() &&
                    begin_alike(segment.tape, other.tape, segment.tape.ops.size());
           })
      .def("difference", &difference)
      .def("call_text", [](const Segment& segment, size_t op) {
        const TapeOp& of = segment.tape.ops.at(op);
        std::vector<int64_t> sizes;
        for (const TapeStorage& one : segment.tape.storages) sizes.push_back(one.size_bytes);
        return py::make_tuple(signature_of(of.call, sizes), of.source.module, of.source.file,
                              of.source.line);
      });
}

void bind_followers(py::module_& module) {
  // False inside kernels and inside not_followed().
  module.def("is_followed", [] {
    return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake) &&
           !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Fake);
  });
  py::class_<NotFollowed>(module, "NotFollowed")
      .def(py::init())
      .def("__enter__",
           [](NotFollowed& one) {
             one.was_followed = c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake);
             set_followed(false);
           })
      .def("__exit__", [](NotFollowed& one, const py::args&) { set_followed(one.was_followed); });
  py::enum_<Follower::Mode>(module, "FollowMode")
      .value("PREVIEW", Follower::Mode::Preview)
      .value("CALL", Follower::Mode::Call)
      .value("AUDIT", Follower::Mode::Audit);
  py::class_<Bound>(module, "Follower")
      .def(py::init<const Profile&, py::object>(), py::keep_alive<1, 2>())
      .def("start",
           [](Bound& bound, Follower::Known known, Follower::Mode mode, bool may_add,
              const std::shared_ptr<TorchDevice>& device, const std::shared_ptr<Homes>& homes,
              int64_t bottom_bytes) {
             bound.follower.start(std::move(known), mode, may_add,
                                  where(bound, device, homes, bottom_bytes));
           })
      .def("set_where",
           [](Bound& bound, const std::shared_ptr<TorchDevice>& device,
              const std::shared_ptr<Homes>& homes, int64_t bottom_bytes) {
             bound.follower.set_where(where(bound, device, homes, bottom_bytes));
           })
      .def("stop", of_follower(&Follower::stop))
      .def("end_segment", &end_segment)
      .def("undo_writes", of_follower(&Follower::undo_writes))
      .def("forget_writes", of_follower(&Follower::forget_writes))
      .def("add_known", of_follower(&Follower::add_known))
      .def("set_known", of_follower(&Follower::set_known))
      .def("set_region", of_follower(&Follower::set_region))
      .def("is_untouched", of_follower(&Follower::is_untouched))
      .def("guesses", of_follower(&Follower::guesses))
      .def("note_guess",
           [](Bound& bound, const at::Tensor& tensor, const std::string& asking) {
             if (Guesses::is_in(tensor)) bound.follower.note_guess(asking);
           })
      .def("recorded", of_follower(&Follower::recorded))
      .def("ran", of_follower(&Follower::ran));
}

}  // namespace

void bind_following(py::module_& module) {
  bind_segments(module);
  bind_followers(module);
}

}  // namespace fitstep::torch_side
