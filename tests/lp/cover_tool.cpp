// Prints covers and what we say they cost, one JSON object per line, for a solver to check:
//
//   {"name": "random 1", "rows": [2, 3], "offers": [[0, 2, 3, 5]], "least_bytes": 3, "cost": 15}
//
// An offer is its first row, the one behind its last, its bytes and its cost per byte; null where
// all of them do not cover the rows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/base/random.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/net_program.h"

namespace fitstep {
namespace {

constexpr uint64_t kRandomCovers = 200;

struct Question {
  std::string name;
  std::vector<int64_t> row_bytes;
  std::vector<Offer> offers;
};

template <class Number>
std::string print(const std::optional<Number>& number) {
  return number ? fmt::format("{}", *number) : "null";
}

void answer(const Question& question) {
  std::vector<std::string> offers;
  offers.reserve(question.offers.size());
  for (const Offer& offer : question.offers) {
    offers.push_back(fmt::format("[{}, {}, {}, {}]", offer.covers.begin, offer.covers.end,
                                 offer.size_bytes, offer.cost));
  }
  fmt::print(R"({{"name": "{}", "rows": [{}], "offers": [{}], "least_bytes": {}, "cost": {}}})",
             question.name, fmt::join(question.row_bytes, ", "), fmt::join(offers, ", "),
             print(least_cover_bytes(question.offers, question.row_bytes)),
             print(cheapest_cover(question.offers, question.row_bytes)));
  std::puts("");
}

Question random_question(uint64_t seed) {
  Random random(seed);
  const auto number = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.uniform() * static_cast<double>(high - low + 1));
  };
  Question question{.name = fmt::format("random {}", seed), .row_bytes = {}, .offers = {}};
  const int64_t rows = number(1, 40);
  const int64_t most_bytes = number(1, 60);
  for (int64_t i = 0; i < rows; ++i) question.row_bytes.push_back(number(0, most_bytes));
  for (int64_t i = number(rows, rows * 4); i > 0; --i) {
    const int64_t begin = number(0, rows - 1);
    question.offers.push_back({.covers = {begin, number(begin + 1, rows)},
                               .size_bytes = number(1, 40),
                               .cost = number(0, 9)});
  }
  return question;
}

// All spans of a net, at a share of its peak; dearer where the maker takes longer.
Question net_question(const Program& program, double share) {
  const Values values(program, make_order(program));
  const Needs needs(values, unit_machine());
  Question question{.name = fmt::format("{} at {}", program.name, share)};
  int64_t peak_bytes = 0;
  for (Tick tick = 0; tick < needs.tick_count(); ++tick) {
    peak_bytes = std::max(peak_bytes, needs.load_bytes(tick));
  }
  const auto room_bytes = static_cast<int64_t>(static_cast<double>(peak_bytes) * share);
  for (Tick tick = 0; tick < needs.tick_count(); ++tick) {
    const int64_t excess_bytes = std::max<int64_t>(0, needs.load_bytes(tick) - room_bytes);
    question.row_bytes.push_back(std::min(excess_bytes, needs.idle_bytes(tick)));
  }
  for (const IdleSpan& span : needs.spans()) {
    const Tick made = values[span.value].made;
    question.offers.push_back({.covers = {span.begin, span.end},
                               .size_bytes = span.size_bytes,
                               .cost = needs.time_ps(made, made + 1) / 1'000'000 + 1});
  }
  return question;
}

}  // namespace
}  // namespace fitstep

int main() {
  for (uint64_t seed = 1; seed <= fitstep::kRandomCovers; ++seed) {
    fitstep::answer(fitstep::random_question(seed));
  }
  for (const double share : {0.7, 0.3}) {
    fitstep::answer(fitstep::net_question(fitstep::gpt_program({}), share));
    fitstep::answer(fitstep::net_question(fitstep::resnet50_program({}), share));
  }
  return 0;
}
