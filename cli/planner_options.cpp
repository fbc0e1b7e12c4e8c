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
  verb.add_option("--policy", options.policy, "How to plan")
      ->check(CLI::IsMember(policies))
      ->capture_default_str();
  verb.add_option("--seed", options.seed, "Of the planner's random choices")
      ->check(seed_number())
      ->capture_default_str();
  verb.add_option("--effort", options.effort, "More is slower and better")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  constexpr double kSecondsPerDay = 86'400;
  verb.add_option("--time-limit", options.time_limit_s,
                  "Seconds; the best plan found by then, or the first one. Without it, or with 0, "
                  "the search ends by itself, and equal files give equal plans")
      ->check(number_from(0, kSecondsPerDay));
  verb.add_option("--threads", options.threads,
                  "That search; all of the machine otherwise. The plan is the same with any number")
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
