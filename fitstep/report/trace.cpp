#include "fitstep/report/trace.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;

double microseconds(int64_t time_ps) { return static_cast<double>(time_ps) * 1e-6; }

class TraceMaker {
 public:
  TraceMaker(const Program& program, const Plan& plan, const Timeline& timeline)
      : program_(program), plan_(plan), timeline_(timeline), spans_(timeline) {}

  std::string run() {
    put({{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", "fitstep, simulated"}}}});
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      if (!is_listed(plan_, lane)) continue;
      put({{"ph", "M"},
           {"name", "thread_name"},
           {"tid", lane + 1},
           {"args", {{"name", to_string(static_cast<Lane>(lane))}}}});
    }
    std::vector<bool> has_run(program_.ops.size(), false);
    for (const Span& span : timeline_.spans) {
      const Action& action = plan_.lane(span.lane)[static_cast<size_t>(span.position)];
      const bool is_run = action.kind == Action::Kind::Run;
      put_span(span, is_run ? event_of(action.run, has_run[action.run.op.index()])
                            : event_of(action.copy));
      if (is_run) has_run[action.run.op.index()] = true;
    }
    put_bytes();
    return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events_ + "\n]}\n";
  }

 private:
  // One event a line, so that large traces need no tree in memory.
  void put(Json event) {
    event["pid"] = kProcess;
    events_ += events_.empty() ? "" : ",\n";
    events_ += event.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  }

  void put_span(const Span& span, Json event) {
    event["ph"] = "X";
    event["tid"] = static_cast<int>(span.lane) + 1;
    event["ts"] = microseconds(span.begin_ps);
    event["dur"] = microseconds(span.end_ps - span.begin_ps);
    event["args"]["position"] = span.position;
    if (span.stall_ps > 0) event["args"]["stall_us"] = microseconds(span.stall_ps);
    put(std::move(event));
  }

  Json event_of(const Run& run, bool is_again) const {
    const Op& op = program_.ops[run.op.index()];
    Json event = {{"name", op.name + (is_again ? " (again)" : "")},
                  {"cat", is_again ? "recompute" : to_string(op.kind)},
                  {"args", {{"op", run.op.value()}}}};
    if (!op.source.module.empty()) event["args"]["module"] = op.source.module;
    if (!op.source.file.empty()) {
      event["args"]["source"] = fmt::format("{}:{}", op.source.file, op.source.line);
    }
    return event;
  }

  Json event_of(const Copy& copy) const {
    const Residency& source = plan_.residencies[copy.source.index()];
    const Residency& target = plan_.residencies[copy.target.index()];
    const Storage& storage = program_.storages[source.storage.index()];
    return {{"name", storage.name.empty() ? fmt::format("storage {}", source.storage.value())
                                          : storage.name},
            {"cat", "copy"},
            {"args",
             {{"storage", source.storage.value()},
              {"size_bytes", storage.size_bytes},
              {"from_tier", source.tier.value()},
              {"to_tier", target.tier.value()}}}};
  }

  void put_bytes() {
    for (const LiveBytes& live : timeline_.live) {
      const int64_t begin_ps = spans_.of({Lane::Compute, live.position}).begin_ps;
      put({{"ph", "C"},
           {"name", "device"},
           {"ts", microseconds(begin_ps)},
           {"args", {{"bytes", live.bytes}}}});
    }
  }

  const Program& program_;
  const Plan& plan_;
  const Timeline& timeline_;
  const LaneSpans spans_;
  std::string events_;
};

}  // namespace

std::string print_trace(const Program& program, const Plan& plan, const Timeline& timeline) {
  return TraceMaker(program, plan, timeline).run();
}

}  // namespace fitstep
