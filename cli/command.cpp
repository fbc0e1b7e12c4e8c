#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/show.h"
#include "cli/verify.h"

namespace fitstep {

Answer run_command(const std::vector<std::string>& arguments) {
  CLI::App app("Train inside a memory budget: look at programs and plans, prove plans.", "fitstep");
  app.require_subcommand(1);
  ShowOptions show;
  const CLI::App* show_verb = add_show(app, show);
  VerifyOptions verify;
  const CLI::App* verify_verb = add_verify(app, verify);

  std::vector<std::string> reversed(arguments);  // As CLI11 wants them.
  std::ranges::reverse(reversed);
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    std::ostringstream fault;
    const int code = app.exit(error, text, fault);
    return Answer{code == 0 ? ExitCode::Yes : ExitCode::BadInput, text.str(), fault.str()};
  }
  if (show_verb->parsed()) return run_show(show);
  if (verify_verb->parsed()) return run_verify(verify);
  return Answer{ExitCode::BadInput, "", app.help()};
}

}  // namespace fitstep
