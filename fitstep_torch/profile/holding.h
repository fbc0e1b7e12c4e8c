// Guards for a trial run: what kernels find in fresh memory, a log of requests, counters.
#pragma once

#include <vector>

#include "fitstep/run/answers.h"

namespace fitstep::torch_side {

// While an object of this class exists, memory that kernels request is filled with `content`, but
// for the places of arguments. If a kernel reads bytes that it has not written, its results depend
// on `content`.
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

// Logs memory requests and releases while it exists.
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

// Restores the counters when it is destroyed: a trial run does not count as a step.
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
