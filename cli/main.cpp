#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cli/command.h"

namespace {

// One line on a terminal. Each call overwrites the line.
void show_progress(const std::string& what, double share) {
  std::fprintf(stderr, "\rfitstep: %s %3.0f %%", what.c_str(), 100 * share);
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  const bool is_watched = isatty(STDERR_FILENO) != 0;
  bool has_shown = false;
  const fitstep::Progress progress = [&has_shown](const std::string& what, double share) {
    has_shown = true;
    show_progress(what, share);
  };
  const fitstep::Answer answer =
      fitstep::run_command(arguments, is_watched ? progress : fitstep::Progress());
  if (has_shown) std::fputs("\r\033[K", stderr);
  std::fwrite(answer.text.data(), 1, answer.text.size(), stdout);  // Names may hold any byte.
  std::fwrite(answer.error.data(), 1, answer.error.size(), stderr);
  if (std::fflush(stdout) != 0) {  // Full disk: a script trusts the exit code.
    std::perror("fitstep: cannot write the answer");
    return static_cast<int>(fitstep::ExitCode::BadInput);
  }
  return static_cast<int>(answer.code);
}
