#include "fitstep/planner/ask/least.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "fitstep/base/bytes.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

class LeastSearch {
 public:
  LeastSearch(const Program& program, const Machine& machine, const PlanRequest& request)
      : program_(program), machine_(machine), request_(request) {
    request_.says_least = false;
    request_.progress = nullptr;
  }

  // Searches between `low_bytes`, which has no plan, and `high_bytes`, which has one.
  int64_t run(int64_t low_bytes, int64_t high_bytes) {
    constexpr int64_t kNear = 100;  // Exact to 1/100 of the answer.
    int64_t stride_bytes = low_bytes / (2 * kNear) + 1;
    while (high_bytes - low_bytes > stride_bytes) {
      stride_bytes *= 2;
      const int64_t next_bytes = low_bytes + std::min(stride_bytes, high_bytes - low_bytes - 1);
      (is_quickly_found(next_bytes) ? high_bytes : low_bytes) = next_bytes;
      if (high_bytes == next_bytes || low_bytes > kUnknown / 4) break;
    }
    int64_t tries = Effort(std::ssize(program_.ops)).halvings();
    while (tries-- > 0 && high_bytes - low_bytes > high_bytes / kNear) {
      const int64_t middle_bytes = low_bytes + (high_bytes - low_bytes) / 2;
      (is_quickly_found(middle_bytes) ? high_bytes : low_bytes) = middle_bytes;
    }
    return high_bytes;
  }

  bool is_quickly_found(int64_t capacity_bytes) {
    PlanRequest quick = request_;
    quick.effort = 1;
    quick.takes_first_plan = true;
    return is_found(capacity_bytes, std::move(quick));
  }

  // With the effort of the request. A first plan is enough: the request tries it, too.
  bool is_found(int64_t capacity_bytes) {
    PlanRequest asked = request_;
    asked.takes_first_plan = true;
    return is_found(capacity_bytes, std::move(asked));
  }

 private:
  bool is_found(int64_t capacity_bytes, PlanRequest request) {
    request.capacity_bytes = capacity_bytes;
    return std::holds_alternative<Fits>(make_plan(program_, machine_, request));
  }

  const Program& program_;
  const Machine& machine_;
  PlanRequest request_;
};

// The capacity that planning itself names, however long it takes.
int64_t least_said(const Program& program, const Machine& machine, const PlanRequest& request,
                   int64_t capacity_bytes) {
  PlanRequest patient = request;
  patient.capacity_bytes = capacity_bytes;
  patient.says_least = true;
  const Outcome outcome = make_plan(program, machine, patient);
  const auto* gave_up = std::get_if<GaveUp>(&outcome);
  return gave_up == nullptr ? capacity_bytes : gave_up->least_found_bytes;
}

}  // namespace

bool can_find_least(const PlanRequest& request) {
  return !request.has_deadline() && request.is_searched();
}

GaveUp find_least(const Program& program, const Machine& machine, const PlanRequest& request,
                  GaveUp gave_up, int64_t first_bytes) {
  constexpr int32_t kLooks = 4;  // Tries with the effort of the request, each with 2 % more.
  int64_t& found_bytes = gave_up.least_found_bytes;
  const int64_t low_bytes = std::max(request.capacity_bytes, gave_up.floor_bytes - 1);
  first_bytes = std::max(first_bytes, gave_up.floor_bytes);
  const auto said = [&] {
    return least_said(program, machine, request, std::max(low_bytes, first_bytes));
  };
  if (!can_find_least(request)) {
    if (found_bytes == 0) found_bytes = said();
    return gave_up;
  }
  LeastSearch search(program, machine, request);
  const int64_t most_bytes = found_bytes > 0 ? found_bytes : kUnknown;
  int64_t least_bytes = first_bytes;
  if (first_bytes <= low_bytes || !search.is_quickly_found(first_bytes)) {
    least_bytes = search.run(std::max(low_bytes, first_bytes), most_bytes);
  }
  // Arenas consist of whole blocks, so a request for the named capacity gets a little more. So try
  // whole blocks: for a little more the answer may differ.
  const int64_t block_bytes = program.alignment_bytes;
  for (int32_t look = 0; look < kLooks; ++look) {
    least_bytes = align_up(least_bytes, block_bytes);
    if (least_bytes >= most_bytes) break;
    if (search.is_found(least_bytes)) {
      found_bytes = least_bytes;
      return gave_up;
    }
    least_bytes += least_bytes / 50;
  }
  if (found_bytes == 0) found_bytes = said();
  return gave_up;
}

}  // namespace fitstep
