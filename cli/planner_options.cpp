#include "cli/planner_options.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cli/command.h"
#include "cli/numbers.h"
#include "fitstep/planner/planner.h"

namespace fitstep {
namespace {

constexpr int32_t kMostThreads = 64;

int32_t threads_here() {
  return std::clamp(static_cast<int32_t>(std::thread::hardware_concurrency()), 1, kMostThreads);
}

}  // namespace

void add_planner_options(CLI::App& verb, PlannerOptions& options) {
  const std::vector<std::string> policies(policy_names().begin(), policy_names().end());
  verb.add_option("--policy", options.policy, "How to plan; all but auto are for comparison")
      ->check(CLI::IsMember(policies))
      ->capture_default_str();
  verb.add_option("--seed", options.seed, "Seed of the planner's random choices")
      ->check(seed_number())
      ->capture_default_str();
  verb.add_option("--effort", options.effort, "Raise it if no plan fits, or for faster plans")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  constexpr double kSecondsPerDay = 86'400;
  verb.add_option(
          "--time-limit", options.time_limit_s,
          "Stop the search after these seconds and use its best plan (if there is none yet, "
          "its first). Without a limit, or with 0, equal files give equal plans")
      ->check(number_from(0, kSecondsPerDay));
  verb.add_option("--threads", options.threads,
                  "Threads that search; default: all cores. The plan is the same with any number")
      ->check(CLI::Range(1, kMostThreads));
}

PlanRequest make_request(const PlannerOptions& options, int64_t capacity_bytes,
                         const Progress& progress) {
  PlanRequest request{.capacity_bytes = capacity_bytes,
                      .seed = options.seed,
                      .effort = options.effort,
                      .time_limit_s = options.time_limit_s,
                      .threads = options.threads > 0 ? options.threads : threads_here(),
                      .policy = options.policy};
  if (progress) request.progress = [&progress](double share) { progress("planning", share); };
  return request;
}

}  // namespace fitstep
