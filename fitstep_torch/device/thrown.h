// What an exception of PyTorch's says.
#pragma once

#include <exception>
#include <string>

namespace fitstep::torch_side {

// The message without the stack trace that PyTorch appends.
inline std::string first_line(const std::exception& error) {
  const std::string what = error.what();
  return what.substr(0, what.find('\n'));
}

}  // namespace fitstep::torch_side
