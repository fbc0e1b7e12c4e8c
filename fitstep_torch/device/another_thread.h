// Runs a function in a new thread. PyTorch caches some choices per thread, such as the cuDNN
// algorithm of a convolution; a new thread has none of these choices.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "fitstep/base/result.h"
#include "fitstep_torch/device/thrown.h"

namespace fitstep::torch_side {

// Calls `todo` in a new thread, waits, and returns its result.
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
