#include <cstdio>
#include <string>
#include <vector>

#include "cli/command.h"

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  const fitstep::Answer answer = fitstep::run_command(arguments);
  std::fputs(answer.text.c_str(), stdout);
  std::fputs(answer.error.c_str(), stderr);
  return static_cast<int>(answer.code);
}
