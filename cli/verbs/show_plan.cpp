#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "cli/chart.h"
#include "cli/choices_text.h"
#include "cli/packing_text.h"
#include "cli/proven.h"
#include "cli/text.h"
#include "cli/verbs/show.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/report/choices.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/report/packing_saved.h"

namespace fitstep {
namespace {

constexpr size_t kMostResidencies = 10;  // Listed.

// Text and JSON both print these facts, so they cannot differ.
struct PlanFacts {
  int64_t runs = 0;
  int64_t recomputes = 0;  // Second and later runs of an op.
  int64_t copies[kLaneCount] = {};
  int64_t copied_bytes = 0;
  int64_t homes = 0;
  int64_t home_bytes = 0;
  int64_t external = 0;
  std::vector<ResidencyId> largest;  // In a tier's arena; not homes.
};

PlanFacts collect(const Plan& plan) {
  PlanFacts facts;
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
  facts.largest.resize(std::min(facts.largest.size(), kMostResidencies));
  return facts;
}

std::string print_json(const Plan& plan, const PlanFacts& facts, const Proven* proven) {
  Json copies = Json::object();
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (is_listed(plan, lane)) copies[to_string(static_cast<Lane>(lane))] = facts.copies[lane];
  }
  Json largest = Json::array();
  for (const ResidencyId id : facts.largest) {
    const Residency& residency = plan.residencies[id.index()];
    largest.push_back({{"residency", id.value()},
                       {"storage", residency.storage.value()},
                       {"tier", residency.tier.value()},
                       {"offset_bytes", residency.offset_bytes},
                       {"size_bytes", residency.size_bytes}});
    if (proven == nullptr) continue;
    largest.back()["name"] = label_of(proven->program, residency.storage);
  }
  Json root = {{"program_hash", plan.program_hash},
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
  if (proven != nullptr) {
    root["choices"] =
        to_json(proven->program, storage_choices(proven->program, plan, proven->timeline));
    root["packed"] =
        to_json(proven->program, packed_values(proven->program, plan, proven->timeline));
    root["live_bytes"] = live_bytes(proven->timeline);
  }
  return to_text(root);
}

std::string print_certificate(const Plan& plan) {
  const Certificate& certificate = plan.certificate;
  std::string text = fmt::format("plan for program {}, policy {}, seed {}\n\ncertificate\n",
                                 plan.program_hash, plan.policy, plan.seed);
  const auto put_bytes = [&text](const char* what, int64_t bytes, const char* meaning) {
    text += fmt::format("  {:<10}{:>12}  {}\n", what, format_bytes(bytes), meaning);
  };
  put_bytes("floor", certificate.floor_bytes, "no plan of this program needs less");
  put_bytes("peak", certificate.peak_bytes, "most bytes live at one tick");
  put_bytes("height", certificate.height_bytes, "arena bytes that the layout needs");
  put_bytes("capacity", certificate.capacity_bytes, "size of the arena that the plan was made for");
  const auto put_seconds = [&text](const char* what, int64_t ps, const std::string& meaning) {
    text += fmt::format("  {:<10}{:>12}  {}\n", what, format_seconds(ps), meaning);
  };
  put_seconds("predicted", certificate.predicted_ps, "moves: " + certificate.moves);
  put_seconds("bound", certificate.bound_ps, hang_bound(certificate.bound, 26));
  return text;
}

std::string print_actions(const Plan& plan, const PlanFacts& facts) {
  std::string text = fmt::format("\n{}, {} of them recompute\n",
                                 format_count(static_cast<size_t>(facts.runs), "op run", "op runs"),
                                 facts.recomputes);
  const int64_t copies = std::accumulate(facts.copies, facts.copies + kLaneCount, int64_t{0});
  text += fmt::format("{}, {} in all", format_count(static_cast<size_t>(copies), "copy", "copies"),
                      format_bytes(facts.copied_bytes));
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!is_listed(plan, lane)) continue;
    text += fmt::format("{}{} {}", lane == 0 ? ": " : ", ", facts.copies[lane],
                        to_string(static_cast<Lane>(lane)));
  }
  text += fmt::format("\n{}: {} ({}), {} outside the arena\n",
                      format_count(plan.residencies.size(), "residency", "residencies"),
                      format_count(static_cast<size_t>(facts.homes), "home", "homes"),
                      format_bytes(facts.home_bytes), facts.external);
  return text;
}

// Storages by name if the program is known, else by number.
std::string print_largest(const Plan& plan, const PlanFacts& facts, const Proven* proven) {
  std::string text =
      fmt::format("\nlargest residencies, without homes\n  {:>11} {:>5} {:>13}  {}\n", "bytes",
                  "tier", "address", "storage");
  for (const ResidencyId id : facts.largest) {
    const Residency& residency = plan.residencies[id.index()];
    text += fmt::format("  {:>11} {:>5} {:>13}  {}\n", format_bytes(residency.size_bytes),
                        residency.tier.value(), residency.offset_bytes,
                        proven == nullptr ? fmt::format("{}", residency.storage.value())
                                          : label_of(proven->program, residency.storage));
  }
  return text;
}

std::string print_text(const Plan& plan, const PlanFacts& facts, const Proven* proven) {
  std::string text = print_certificate(plan) + print_actions(plan, facts);
  if (proven == nullptr) {
    return text + print_largest(plan, facts, proven) +
           "\nfor names, choices and bytes over ticks: fitstep show PLAN PROGRAM\n";
  }
  const std::vector<StorageChoice> choices =
      storage_choices(proven->program, plan, proven->timeline);
  text += "\n" + print_totals(choices) + print_largest(proven->program, choices);
  text += print_packed(proven->program, packed_values(proven->program, plan, proven->timeline));
  text += print_largest(plan, facts, proven) + "\nlive bytes on the device over ticks\n";
  return text + draw_chart(most_of_each(live_bytes(proven->timeline), kChartColumns), kChartRows);
}

}  // namespace

std::string show_plan(const Plan& plan, const Proven* proven, bool as_json) {
  const PlanFacts facts = collect(plan);
  return as_json ? print_json(plan, facts, proven) : print_text(plan, facts, proven);
}

}  // namespace fitstep
