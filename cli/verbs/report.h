// `fitstep report PLAN PROGRAM`: where the time and the memory of a plan go, and why; as text, as
// JSON and as a trace for Perfetto.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/proven.h"
#include "fitstep/report/at_peak.h"
#include "fitstep/report/choices.h"
#include "fitstep/report/packing_saved.h"
#include "fitstep/report/time_use.h"

namespace fitstep {

struct ReportOptions {
  PlanFiles files;
  std::string trace_path;
  bool as_json = false;
};

// Text and JSON both print these facts, so they cannot differ.
struct ReportFacts {
  std::vector<StorageChoice> choices;
  TimeUse use;
  Peak peak;
  std::vector<PackedValue> packed;
};

CLI::App* add_report(CLI::App& app, ReportOptions& options);
Answer run_report(const ReportOptions& options);

std::string print_report(const Proven& proven, const ReportFacts& facts,
                         const ReportOptions& options);
std::string report_to_json(const Proven& proven, const ReportFacts& facts,
                           const ReportOptions& options);

}  // namespace fitstep
