// Around the trial of a call: what its kernels find in memory, and counters that it leaves alone.
#pragma once

#include <vector>

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

// While it lives, requests and releases are noted.
class Logging {
 public:
  explicit Logging(Answers& answers) : answers_(answers) { answers_.start_log(); }
  ~Logging() {
    if (answers_.is_logging()) answers_.stop_log();
  }
  Logging(const Logging&) = delete;
  Logging& operator=(const Logging&) = delete;

  std::vector<MemoryEvent> stop() { return answers_.stop_log(); }

 private:
  Answers& answers_;
};

// Puts the counters back when it goes: what is tried here is not a step's.
class KeepCounters {
 public:
  explicit KeepCounters(Answers& answers) : answers_(answers), kept_(answers.counters()) {}
  ~KeepCounters() { answers_.counters() = kept_; }
  KeepCounters(const KeepCounters&) = delete;
  KeepCounters& operator=(const KeepCounters&) = delete;

 private:
  Answers& answers_;
  AllocatorCounters kept_;
};

}  // namespace fitstep::torch_side
