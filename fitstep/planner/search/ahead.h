// Ahead: threads that search early for the tasks that the caller will probably need next.
//
//   caller     [ search a ][ wait ][ take b ]        [ search d ]
//   thread 1   [     search b     ][ search ...                     d depends on the result of b
//   thread 2   [ search c ~ stopped: no longer needed ]
//
// The result of a search depends on its task only, so it is equal with any number of threads.
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
  // `threads`: how many search at the same time, the calling thread included.
  explicit Ahead(int32_t threads) : threads_(threads) {}
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  int32_t threads() const { return threads_; }

  // Names the tasks that the caller will probably search for next, in that order. Threads begin
  // with the second; the caller searches for the first itself. Stops all tasks that are not in the
  // list.
  //
  // REQUIRES: all that the tasks refer to outlives this object.
  void expect(std::vector<Task> tasks);

  // The same result as search() of this folder; taken from a thread if one has begun the task.
  std::vector<Candidate> search(const Task& task);

 private:
  struct Job {
    explicit Job(Task of) : task(std::move(of)) {}
    Task task;
    std::atomic<bool> is_stopped = false;
    std::atomic<bool> has_ended = false;
    std::vector<Candidate> found;
    std::thread thread;  // Not joinable before the search has started.
  };

  void start(int32_t most_running);

  const int32_t threads_;
  std::list<std::unique_ptr<Job>> jobs_;     // In the order of expect().
  std::list<std::unique_ptr<Job>> stopped_;  // Stopped, but the thread may still run.
};

}  // namespace fitstep
