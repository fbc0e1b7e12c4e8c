// The command `fitstep` as a function, so that tests can call it.
//
//   fitstep <verb> FILE...      verbs: show, verify
//
// Every verb reads files, prints to `text`, says what is wrong in `error`, and has an exit code:
// 0 yes, 1 no (a plan with faults), 2 input that cannot be used.
#pragma once

#include <string>
#include <vector>

namespace fitstep {

enum class ExitCode { Yes = 0, No = 1, BadInput = 2 };

struct Answer {
  ExitCode code = ExitCode::Yes;
  std::string text;   // For standard output.
  std::string error;  // For standard error.
};

// `arguments` without the command's own name.
Answer run_command(const std::vector<std::string>& arguments);

}  // namespace fitstep
