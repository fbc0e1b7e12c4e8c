#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/files.h"
#include "cli/verbs/compare.h"
#include "cli/verbs/curve.h"
#include "cli/verbs/layout.h"
#include "cli/verbs/machine.h"
#include "cli/verbs/plan.h"
#include "cli/verbs/report.h"
#include "cli/verbs/show.h"
#include "cli/verbs/simulate.h"
#include "cli/verbs/verify.h"
#include "fitstep/base/result.h"

namespace fitstep {
namespace {

// One line, like every other error. It names the command that prints help.
Answer refuse_arguments(const CLI::App& app, const std::vector<std::string>& arguments,
                        const std::string& fault) {
  const std::vector<CLI::App*> verbs = app.get_subcommands();  // Verbs that the user named.
  if (!verbs.empty()) {
    return bad_input({ErrorCode::BadInput,
                      fmt::format("{}; see fitstep {} --help", fault, verbs.front()->get_name())});
  }
  std::string known;
  for (const CLI::App* verb : app.get_subcommands({})) {
    known += (known.empty() ? "" : ", ") + verb->get_name();
  }
  const std::string what =
      arguments.empty() ? "no verb given" : arguments.front() + " is not a verb";
  return bad_input({ErrorCode::BadInput, fmt::format("{}; the verbs are {}", what, known)});
}

// A verb of the command, with its own options.
struct Verb {
  const CLI::App* app = nullptr;
  std::function<Answer()> run;
};

class Verbs {
 public:
  Verbs(CLI::App& app, const Progress& progress) : app_(app), progress_(progress) {
    add(add_plan, run_plan);
    add(add_compare, run_compare);
    add(add_curve, run_curve);
    add(add_simulate, run_simulate);
    add(add_report, run_report);
    add(add_show, run_show);
    add(add_verify, run_verify);
    add(add_machine, run_machine);
    add(add_layout, run_layout);
  }

  // Of the verb that the user named.
  Answer run() const {
    const auto found =
        std::ranges::find_if(verbs_, [](const Verb& verb) { return verb.app->parsed(); });
    return found->run();
  }

 private:
  template <class Options, class Run>
  void add(CLI::App* (*add_verb)(CLI::App&, Options&), Run run_verb) {
    const auto options = std::make_shared<Options>();
    const CLI::App* const verb = add_verb(app_, *options);
    if constexpr (std::is_invocable_v<Run, const Options&>) {
      verbs_.push_back({verb, [options, run_verb] { return run_verb(*options); }});
    } else {
      verbs_.push_back({verb, [options, run_verb, progress = progress_] {
                          return run_verb(*options, progress);
                        }});
    }
  }

  CLI::App& app_;
  Progress progress_;
  std::vector<Verb> verbs_;
};

}  // namespace

std::vector<std::string> verb_names() {
  CLI::App app;
  const Verbs verbs(app, {});
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

Answer run_command(const std::vector<std::string>& arguments, const Progress& progress) {
  CLI::App app("Plan, verify and simulate training steps inside a memory budget.", "fitstep");
  app.set_version_flag("--version", "fitstep " FITSTEP_VERSION);
  app.require_subcommand(1);
  const Verbs verbs(app, progress);

  std::vector<std::string> reversed(arguments);  // CLI11 takes the last argument first.
  std::ranges::reverse(reversed);
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return refuse_arguments(app, arguments, error.what());
    std::ostringstream text;
    app.exit(error, text, text);
    return Answer{ExitCode::Yes, text.str(), ""};
  }
  return verbs.run();
}

}  // namespace fitstep
