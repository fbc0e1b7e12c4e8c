// What PyTorch keeps for a thread, such as the implementations of convolutions that it found, a new
// thread has not.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "fitstep/base/result.h"
#include "fitstep_torch/device/thrown.h"

namespace fitstep::torch_side {

// Returns what `todo` does, once it has been done.
template <class T>
Result<T> in_another_thread(const std::function<Result<T>()>& todo) {
  std::optional<Result<T>> done;
  std::thread thread([&] {
    try {
      done.emplace(todo());
    } catch (const std::exception& error) {
      done.emplace(Error{ErrorCode::Device, first_line(error)});
    }
  });
  thread.join();
  return *std::move(done);
}

}  // namespace fitstep::torch_side
