// The command `fitstep` as a function, so that tests can call it.
//
//   fitstep <verb> FILE...      each verb is a file of cli/verbs/
//
// Every verb reads files and returns an answer, an error message and an exit code:
// 0 yes; 1 no (no plan fits, the plan has faults, the blocks do not fit); 2 the input cannot be
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

// Called now and then: the name of the work, and the share (0 .. 1) that is done. May be empty.
using Progress = std::function<void(const std::string& what, double share)>;

// `arguments`: without the word `fitstep`.
Answer run_command(const std::vector<std::string>& arguments, const Progress& progress = {});

// All verbs, in the order of the help.
std::vector<std::string> verb_names();

}  // namespace fitstep
