#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cli/chart.h"
#include "cli/text.h"
#include "cli/verbs/show.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/budget.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

constexpr size_t kMostStorages = 10;     // Listed.
constexpr size_t kMostNameLetters = 52;  // In text.

// Ops or storages of one kind.
struct Group {
  const char* kind = "";
  int64_t count = 0;
  int64_t amount = 0;  // Picoseconds of ops, bytes of storages.
};

// Text and JSON both print these facts, so they cannot differ.
struct ProgramFacts {
  std::string hash;
  std::vector<Group> ops;
  std::vector<Group> storages;
  int64_t plain_peak_bytes = 0;
  int64_t keep_all_bytes = 0;
  int64_t external_bytes = 0;  // Inputs, outputs and constants: outside the arena.
  int64_t floor_bytes = 0;
  std::vector<Culprit> culprits;
  std::vector<Interval> lifetime;
  std::vector<StorageId> largest;
  std::vector<int64_t> live;
  int64_t optional_ops = 0;
  int64_t packable_bytes = 0;  // That optional ops can pack into fewer bytes.
};

void add_to(std::vector<Group>& groups, const char* kind, int64_t amount) {
  auto group = std::ranges::find(groups, std::string_view(kind), &Group::kind);
  if (group == groups.end()) group = groups.insert(groups.end(), Group{.kind = kind});
  ++group->count;
  group->amount += amount;
}

// Bytes of what the op reads, without inputs, outputs and constants.
int64_t packed_bytes(const Program& program, const Op& op) {
  int64_t bytes = 0;
  for (const Read& read : op.forms.front().reads) {
    const Storage& storage = program.storages[read.storage.index()];
    if (read.kind != ReadKind::ShapeOnly && !is_external(storage.kind)) bytes += storage.size_bytes;
  }
  return bytes;
}

ProgramFacts collect(const Program& program) {
  ProgramFacts facts{.hash = hash_program(program)};
  for (const Op& op : program.ops) {
    if (op.is_optional) {
      ++facts.optional_ops;
      facts.packable_bytes += packed_bytes(program, op);
      continue;
    }
    add_to(facts.ops, to_string(op.kind), op.forms.front().time_ps);
  }
  for (const Storage& storage : program.storages) {
    add_to(facts.storages, to_string(storage.kind), storage.size_bytes);
  }
  const auto is_more = [](const Group& a, const Group& b) { return a.amount > b.amount; };
  std::ranges::stable_sort(facts.ops, is_more);
  std::ranges::stable_sort(facts.storages, is_more);

  facts.external_bytes = external_bytes(program);
  facts.plain_peak_bytes = plain_peak_bytes(program);
  facts.live = live_bytes(program, /*with_external=*/false);
  facts.keep_all_bytes = facts.live.empty() ? 0 : std::ranges::max(facts.live);
  facts.floor_bytes = floor_bytes(program, PlanRequest{}, &facts.culprits);
  facts.lifetime = lifetimes(program);

  std::vector<size_t> order(program.storages.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return program.storages[a].size_bytes > program.storages[b].size_bytes;
  });
  order.resize(std::min(order.size(), kMostStorages));
  for (const size_t storage : order) facts.largest.push_back(StorageId(storage));
  return facts;
}

Json groups_to_json(const std::vector<Group>& groups, const char* amount) {
  Json json = Json::array();
  for (const Group& group : groups) {
    json.push_back({{"kind", group.kind}, {"count", group.count}, {amount, group.amount}});
  }
  return json;
}

std::string print_json(const Program& program, const ProgramFacts& facts) {
  Json culprits = Json::array();
  for (const Culprit& culprit : facts.culprits) {
    culprits.push_back({{"op", culprit.op.value()},
                        {"name", program.ops[culprit.op.index()].name},
                        {"bytes", culprit.bytes}});
  }
  Json largest = Json::array();
  for (const StorageId id : facts.largest) {
    const Storage& storage = program.storages[id.index()];
    const Interval& lifetime = facts.lifetime[id.index()];
    largest.push_back({{"storage", id.value()},
                       {"name", storage.name},
                       {"kind", to_string(storage.kind)},
                       {"size_bytes", storage.size_bytes},
                       {"lifetime", {lifetime.begin, lifetime.end}}});
  }
  const Json root = {{"program", program.name},
                     {"hash", facts.hash},
                     {"op_count", program.ops.size()},
                     {"optional_op_count", facts.optional_ops},
                     {"packable_bytes", facts.packable_bytes},
                     {"storage_count", program.storages.size()},
                     {"call_count", program.calls.size()},
                     {"plain_peak_bytes", facts.plain_peak_bytes},
                     {"keep_all_bytes", facts.keep_all_bytes},
                     {"external_bytes", facts.external_bytes},
                     {"floor_bytes", facts.floor_bytes},
                     {"culprits", culprits},
                     {"ops", groups_to_json(facts.ops, "time_ps")},
                     {"storages", groups_to_json(facts.storages, "size_bytes")},
                     {"largest", largest},
                     {"live_bytes", facts.live}};
  return to_text(root);
}

std::string print_text(const Program& program, const ProgramFacts& facts) {
  std::string text = fmt::format("program \"{}\", hash {}\n{}, {}, {}\n\n", program.name,
                                 facts.hash, format_count(program.ops.size(), "op", "ops"),
                                 format_count(program.storages.size(), "storage", "storages"),
                                 format_count(program.calls.size(), "call", "calls"));
  const auto put_bytes = [&text](const char* what, int64_t bytes, const std::string& meaning) {
    text += fmt::format("{:<16}{:>12}  {}\n", what, format_bytes(bytes), meaning);
  };
  put_bytes("plain peak", facts.plain_peak_bytes, "peak of plain PyTorch, everything included");
  put_bytes("keep all", facts.keep_all_bytes, "peak in the arena if a plan keeps everything");
  put_bytes("inputs, outputs", facts.external_bytes, "and constants: they lie outside the arena");
  put_bytes("floor", facts.floor_bytes, "least arena of any plan, with all homes on the device");
  if (!facts.culprits.empty()) {
    const Op& op = program.ops[facts.culprits.front().op.index()];
    text += fmt::format("{:30}set by {}\n", "", place_of(op));
    if (!source_of(op).empty()) text += fmt::format("{:30}at {}\n", "", source_of(op));
  }

  if (facts.optional_ops > 0) {
    put_bytes(
        "packable", facts.packable_bytes,
        fmt::format("a plan may run {} optional ops that pack these bytes", facts.optional_ops));
  }

  text += "\nops                  count     seconds\n";
  for (const Group& group : facts.ops) {
    text += fmt::format("  {:<16} {:>7} {:>11.6f}\n", group.kind, group.count,
                        static_cast<double>(group.amount) * 1e-12);
  }
  text += "\nstorages             count       bytes\n";
  for (const Group& group : facts.storages) {
    text +=
        fmt::format("  {:<16} {:>7} {:>11}\n", group.kind, group.count, format_bytes(group.amount));
  }
  text += "\nlargest storages        ticks        bytes  name\n";
  for (const StorageId id : facts.largest) {
    const Storage& storage = program.storages[id.index()];
    const Interval& lifetime = facts.lifetime[id.index()];
    text +=
        fmt::format("  {:<16} {:>11} {:>11}  {}\n", to_string(storage.kind),
                    fmt::format("{}-{}", lifetime.begin, lifetime.end),
                    format_bytes(storage.size_bytes), shortened(storage.name, kMostNameLetters));
  }
  const std::vector<int64_t> columns = most_of_each(facts.live, kChartColumns);
  text += "\nlive bytes in the arena over ticks, if a plan keeps everything\n";
  return text + draw_chart(columns, kChartRows);
}

}  // namespace

std::string show_program(const Program& program, bool as_json) {
  const ProgramFacts facts = collect(program);
  return as_json ? print_json(program, facts) : print_text(program, facts);
}

}  // namespace fitstep
