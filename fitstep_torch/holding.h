// A call whose kernels find memory that holds something known.
#pragma once

#include "fitstep/run/answers.h"

namespace fitstep::torch_side {

// While it lives, each byte that kernels request holds this first: what they read and have not
// written themselves shows in their results.
class Holding {
 public:
  static constexpr char kZero = 0;
  static constexpr char kNotANumber = -1;  // As an integer -1.

  Holding(Answers& answers, char content) : answers_(answers) { answers_.set_content(content); }
  ~Holding() { answers_.set_content({}); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

 private:
  Answers& answers_;
};

}  // namespace fitstep::torch_side
