#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "cli/show.h"
#include "cli/text.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"

namespace fitstep {
namespace {

constexpr size_t kLargest = 10;  // Residencies that are listed.
constexpr std::array<const char*, kLaneCount> kLaneNames = {"compute", "evict", "prefetch"};

// Everything that is shown, so that text and JSON cannot differ.
struct Facts {
  int64_t runs = 0;
  int64_t recomputes = 0;  // Runs of an op that has run before.
  int64_t copies[kLaneCount] = {};
  int64_t copied_bytes = 0;
  int64_t homes = 0;
  int64_t home_bytes = 0;
  int64_t external = 0;
  std::vector<ResidencyId> largest;  // In a tier's arena and not at home.
};

Facts collect(const Plan& plan) {
  Facts facts;
  std::set<OpId> has_run;
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    for (const Action& action : plan.lanes[lane]) {
      if (action.kind == Action::Kind::Run) {
        ++facts.runs;
        if (!has_run.insert(action.run.op).second) ++facts.recomputes;
        continue;
      }
      ++facts.copies[lane];
      const ResidencyId target = action.copy.target;
      if (!target.is_none() && target.index() < plan.residencies.size()) {
        facts.copied_bytes += plan.residencies[target.index()].size_bytes;
      }
    }
  }
  for (size_t i = 0; i < plan.residencies.size(); ++i) {
    const Residency& residency = plan.residencies[i];
    if (residency.tier == kExternalTier) {
      ++facts.external;
    } else if (residency.is_home) {
      ++facts.homes;
      facts.home_bytes += residency.size_bytes;
    } else {
      facts.largest.push_back(ResidencyId(i));
    }
  }
  std::ranges::stable_sort(facts.largest, [&](ResidencyId a, ResidencyId b) {
    return plan.residencies[a.index()].size_bytes > plan.residencies[b.index()].size_bytes;
  });
  facts.largest.resize(std::min(facts.largest.size(), kLargest));
  return facts;
}

std::string print_json(const Plan& plan, const Facts& facts) {
  Json copies = Json::object();
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    copies[kLaneNames.at(lane)] = facts.copies[lane];
  }
  Json largest = Json::array();
  for (const ResidencyId id : facts.largest) {
    const Residency& residency = plan.residencies[id.index()];
    largest.push_back({{"residency", id.value()},
                       {"storage", residency.storage.value()},
                       {"tier", residency.tier.value()},
                       {"offset_bytes", residency.offset_bytes},
                       {"size_bytes", residency.size_bytes}});
  }
  const Json root = {{"program_hash", plan.program_hash},
                     {"policy", plan.policy},
                     {"seed", plan.seed},
                     {"certificate", to_json(plan.certificate)},
                     {"runs", facts.runs},
                     {"recomputes", facts.recomputes},
                     {"copies", copies},
                     {"copied_bytes", facts.copied_bytes},
                     {"residencies", plan.residencies.size()},
                     {"homes", facts.homes},
                     {"home_bytes", facts.home_bytes},
                     {"external", facts.external},
                     {"largest", largest}};
  return to_text(root);
}

std::string print_text(const Plan& plan, const Facts& facts) {
  const Certificate& certificate = plan.certificate;
  std::string text = fmt::format("plan for program {}, policy {}, seed {}\n\ncertificate\n",
                                 plan.program_hash, plan.policy, plan.seed);
  const auto put_bytes = [&text](const char* what, int64_t bytes, const char* meaning) {
    text += fmt::format("  {:<10}{:>12}  {}\n", what, format_bytes(bytes), meaning);
  };
  put_bytes("floor", certificate.floor_bytes, "no plan of this program needs less");
  put_bytes("peak", certificate.peak_bytes, "most bytes live at one tick");
  put_bytes("height", certificate.height_bytes, "what the layout needs");
  put_bytes("capacity", certificate.capacity_bytes, "what it was planned for");
  const auto put_seconds = [&text](const char* what, int64_t ps, const std::string& meaning) {
    text += fmt::format("  {:<10}{:>11.6f}s  {}\n", what, static_cast<double>(ps) * 1e-12, meaning);
  };
  put_seconds("predicted", certificate.predicted_ps, "moves: " + certificate.moves);
  put_seconds("bound", certificate.bound_ps, certificate.bound);

  text += fmt::format("\n{} runs, of which {} recompute\n", facts.runs, facts.recomputes);
  const int64_t copies = std::accumulate(facts.copies, facts.copies + kLaneCount, int64_t{0});
  text += fmt::format("{} copies of together {}", copies, format_bytes(facts.copied_bytes));
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    text +=
        fmt::format("{}{} {}", lane == 0 ? ": " : ", ", facts.copies[lane], kLaneNames.at(lane));
  }
  text += fmt::format("\n{} residencies: {} homes ({}), {} outside the arena\n",
                      plan.residencies.size(), facts.homes, format_bytes(facts.home_bytes),
                      facts.external);
  text += "\nlargest residencies, homes left out\n  storage  tier       bytes       address\n";
  for (const ResidencyId id : facts.largest) {
    const Residency& residency = plan.residencies[id.index()];
    text += fmt::format("  {:>7}  {:>4} {:>11}  {:>12}\n", residency.storage.value(),
                        residency.tier.value(), format_bytes(residency.size_bytes),
                        residency.offset_bytes);
  }
  return text;
}

}  // namespace

std::string show_plan(const Plan& plan, bool as_json) {
  const Facts facts = collect(plan);
  return as_json ? print_json(plan, facts) : print_text(plan, facts);
}

}  // namespace fitstep
