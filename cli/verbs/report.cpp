#include "cli/verbs/report.h"

#include <CLI/App.hpp>
#include <string>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/proven.h"
#include "fitstep/base/result.h"
#include "fitstep/report/at_peak.h"
#include "fitstep/report/choices.h"
#include "fitstep/report/packing_saved.h"
#include "fitstep/report/time_use.h"
#include "fitstep/report/trace.h"

namespace fitstep {

CLI::App* add_report(CLI::App& app, ReportOptions& options) {
  CLI::App* verb = app.add_subcommand("report", "Where a plan's time and memory go, and why");
  add_plan_files(*verb, options.files);
  verb->add_option("--trace", options.trace_path,
                   "Write a trace of the step, for Perfetto (ui.perfetto.dev), to this file");
  verb->add_flag("--json", options.as_json, "Print JSON: bytes and picoseconds as integers");
  verb->footer(
      "Exit code: 0 reported, 1 not a valid plan of this program, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep report gpt.plan gpt.program --machine a100-40gb --trace gpt.trace.json");
  return verb;
}

Answer run_report(const ReportOptions& options) {
  const Result<Proven> proven = load_proven(options.files);
  if (!proven.has_value()) return refuse(proven.error());
  const ReportFacts facts = {
      .choices = storage_choices(proven->program, proven->plan, proven->timeline),
      .use = time_use(proven->program, proven->plan, proven->machine, proven->timeline),
      .peak = at_peak(proven->program, proven->plan, proven->timeline),
      .packed = packed_values(proven->program, proven->plan, proven->timeline)};
  if (!options.trace_path.empty()) {
    const Status saved =
        save_text(options.trace_path, print_trace(proven->program, proven->plan, proven->timeline));
    if (!saved.has_value()) return bad_input(saved.error());
  }
  return Answer{ExitCode::Yes,
                options.as_json ? report_to_json(*proven, facts, options)
                                : print_report(*proven, facts, options),
                ""};
}

}  // namespace fitstep
