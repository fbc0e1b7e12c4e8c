// The command `fitstep` as a function, so that tests can call it.
//
//   fitstep <verb> FILE...      verbs: plan, compare, curve, simulate, report, show, verify,
//                               machine, layout
//
// Every verb reads files, prints to `text`, says what is wrong in `error`, and has an exit code:
// 0 yes, 1 no (nothing fits, a plan with faults, blocks that do not fit), 2 input that cannot be
// used.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace fitstep {

enum class ExitCode { Yes = 0, No = 1, BadInput = 2 };

struct Answer {
  ExitCode code = ExitCode::Yes;
  std::string text;   // For standard output.
  std::string error;  // For standard error.
};

// Called now and then with what is done and the share (0 .. 1) of it that is; may be empty.
using Progress = std::function<void(const std::string& what, double share)>;

// `arguments` without the command's own name.
Answer run_command(const std::vector<std::string>& arguments, const Progress& progress = {});

}  // namespace fitstep
