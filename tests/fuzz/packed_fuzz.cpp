// The reader of packed files: any bytes are refused, or unpack to a text that packs again. What
// unpacks goes on to the reader of programs, as it does from the command line.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/program/packed.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fitstep;  // NOLINT(google-build-using-namespace): the body of a main.
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  const Result<std::string> text = unpack(fuzz_text(data, size), kMostBytes);
  if (!text.has_value()) {
    FITSTEP_CHECK(!text.error().message.empty(), "an error says what is wrong");
    return 0;
  }
  FITSTEP_CHECK(std::ssize(*text) <= kMostBytes, "no more than was asked for");
  FITSTEP_CHECK(unpack(pack(*text)).value() == *text, "packed and unpacked is equal");
  const Result<Program> program = parse_program(*text);
  FITSTEP_CHECK(!program.has_value() || validate(*program).has_value(), "what is read is valid");
  return 0;
}
