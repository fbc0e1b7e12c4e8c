#include "fitstep/planner/search/ahead.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fitstep/planner/candidates.h"
#include "fitstep/planner/search/search.h"

namespace fitstep {
namespace {

// Compares tasks of one Planning: they differ in nothing else.
bool are_same(const Task& a, const Task& b) {
  return a.homes.is_below == b.homes.is_below && a.request.policy == b.request.policy &&
         a.request.capacity_bytes == b.request.capacity_bytes && a.improves == b.improves;
}

}  // namespace

Ahead::~Ahead() {
  expect({});
  for (const auto& job : stopped_) job->thread.join();
}

void Ahead::expect(std::vector<Task> tasks) {
  std::list<std::unique_ptr<Job>> wanted;
  for (Task& task : tasks) {
    const auto known = std::ranges::find_if(
        jobs_, [&](const std::unique_ptr<Job>& job) { return are_same(job->task, task); });
    if (known != jobs_.end()) {
      wanted.splice(wanted.end(), jobs_, known);
    } else if (&task != &tasks.front()) {
      wanted.push_back(std::make_unique<Job>(std::move(task)));
    }
  }
  for (std::unique_ptr<Job>& job : jobs_) {
    if (!job->thread.joinable()) continue;
    job->is_stopped = true;
    stopped_.push_back(std::move(job));
  }
  jobs_ = std::move(wanted);
  start(threads_ - 1);
}

std::vector<Candidate> Ahead::search(const Task& task) {
  const auto known = std::ranges::find_if(
      jobs_, [&](const std::unique_ptr<Job>& job) { return are_same(job->task, task); });
  const bool has_begun = known != jobs_.end() && (*known)->thread.joinable();
  if (!has_begun) {
    if (known != jobs_.end()) jobs_.erase(known);
    return fitstep::search(task);
  }
  if (!(*known)->has_ended) start(threads_);  // This thread will sleep.
  Job& job = **known;
  job.thread.join();
  std::vector<Candidate> found = std::move(job.found);
  jobs_.erase(known);
  for (Candidate& candidate : found) candidate.level = task.level;
  return found;
}

void Ahead::start(int32_t most_running) {
  const auto has_ended = [](const std::unique_ptr<Job>& job) {
    if (!job->has_ended) return false;
    job->thread.join();
    return true;
  };
  std::erase_if(stopped_, has_ended);
  auto running = static_cast<int32_t>(stopped_.size());
  for (const auto& job : jobs_) running += job->thread.joinable() && !job->has_ended ? 1 : 0;
  for (const auto& job : jobs_) {
    if (running >= most_running) return;
    if (job->thread.joinable()) continue;
    job->task.stop = &job->is_stopped;
    job->thread = std::thread([it = job.get()] {
      it->found = fitstep::search(it->task);
      it->has_ended = true;
    });
    ++running;
  }
}

}  // namespace fitstep
