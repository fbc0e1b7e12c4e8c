// Searches ahead: what will probably be searched for next, by threads of its own meanwhile.
//
//   caller     [ search a ][ wait ][ take b ]        [ search d ]
//   thread 1   [     search b     ][ search ...                     d depended on what b found
//   thread 2   [ search c ~ stopped: nobody wants it any more ]
//
// A search is a function of its task, so the answers are the same with any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

class Ahead {
 public:
  // `threads`: that search at the same time, the caller's among them.
  explicit Ahead(int32_t threads) : threads_(threads) {}
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  int32_t threads() const { return threads_; }

  // What is likely to be searched for from now on, in that order; the first by the caller itself,
  // if nobody has begun it. Whatever else was expected is stopped.
  //
  // REQUIRES: what the tasks refer to outlives this.
  void expect(std::vector<Task> tasks);

  // As search() of this folder.
  std::vector<Candidate> search(const Task& task);

 private:
  struct Job {
    explicit Job(Task of) : task(std::move(of)) {}
    Task task;
    std::atomic<bool> is_stopped = false;
    std::atomic<bool> has_ended = false;
    std::vector<Candidate> found;
    std::thread thread;  // Not joinable: not started.
  };

  void start(int32_t most_running);

  const int32_t threads_;
  std::list<std::unique_ptr<Job>> jobs_;     // As expected.
  std::list<std::unique_ptr<Job>> stopped_;  // On their way to their end.
};

}  // namespace fitstep
