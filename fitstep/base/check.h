// FITSTEP_CHECK: a violated invariant is our bug.
//
// Stays on in release builds and throws InternalError, because we live inside somebody's training
// job: an exception becomes a Python error with a traceback. Bad input from outside is never a
// check; it is an Error (result.h).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace fitstep {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(std::string_view expression, std::string_view file, int line,
                             const std::string& values);

}  // namespace fitstep

// Throws InternalError with the expression, the place and `values` (a string that names numbers).
#define FITSTEP_CHECK(expression, values)                                                \
  do {                                                                                   \
    if (!(expression)) ::fitstep::fail_check(#expression, __FILE__, __LINE__, (values)); \
  } while (false)
