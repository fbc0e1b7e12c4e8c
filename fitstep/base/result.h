// Result<T>: a value, or the Error that says why there is none.
//
// For failures outside our code: a malformed file, an unsupported op, no memory. The member names
// are those of std::expected, so that one alias can replace this file later. An Error's message
// says what was attempted, with which numbers, and what the user can do.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "fitstep/base/check.h"

namespace fitstep {

enum class ErrorCode {
  BadInput,     // A file or an argument is malformed.
  Unsupported,  // Well-formed, but fitstep cannot do it.
  Mismatch,     // Two inputs do not belong together, such as a plan and a program.
  Device,       // Memory, a copy or a kernel failed.
};

struct Error {
  ErrorCode code = ErrorCode::BadInput;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : content_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value().
  T& value() & { return check_value(), std::get<0>(content_); }
  const T& value() const& { return check_value(), std::get<0>(content_); }
  T&& value() && { return check_value(), std::get<0>(std::move(content_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !has_value().
  const Error& error() const {
    FITSTEP_CHECK(!has_value(), "error() of a result that has a value");
    return std::get<1>(content_);
  }

 private:
  void check_value() const {
    FITSTEP_CHECK(has_value(), has_value() ? std::string() : std::get<1>(content_).message);
  }

  std::variant<T, Error> content_;
};

struct Done {};  // The value of a Result without a value.
using Status = Result<Done>;

}  // namespace fitstep

#define FITSTEP_CONCAT_INNER(a, b) a##b
#define FITSTEP_CONCAT(a, b) FITSTEP_CONCAT_INNER(a, b)

// FITSTEP_TRY(auto x, make_x()): declares x from the result's value, or returns its error.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define FITSTEP_TRY(declaration, expression)                            \
  auto FITSTEP_CONCAT(result_, __LINE__) = (expression);                \
  if (!FITSTEP_CONCAT(result_, __LINE__).has_value())                   \
    return ::fitstep::Error(FITSTEP_CONCAT(result_, __LINE__).error()); \
  declaration = std::move(FITSTEP_CONCAT(result_, __LINE__)).value()
// NOLINTEND(bugprone-macro-parentheses)

// FITSTEP_TRY_STATUS(do_it()): returns the error, if there is one.
#define FITSTEP_TRY_STATUS(expression)                         \
  do {                                                         \
    if (const auto result = (expression); !result.has_value()) \
      return ::fitstep::Error(result.error());                 \
  } while (false)
