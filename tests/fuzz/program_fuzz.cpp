// The reader of program files: any text is refused with a line, or is a valid program whose own
// text means the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fitstep;  // NOLINT(google-build-using-namespace): the body of a main.
  const std::string_view text = fuzz_text(data, size);
  const Result<Program> program = parse_program(text);
  if (!program.has_value()) {
    FITSTEP_CHECK(!program.error().message.empty(), "an error says what is wrong");
    return 0;
  }
  FITSTEP_CHECK(validate(*program).has_value(), "what is read is valid");
  const Result<Program> again = parse_program(print_program(*program));
  FITSTEP_CHECK(again.has_value() && *again == *program, "printed and read is equal");
  FITSTEP_CHECK(hash_program(*again) == hash_program(*program), "and has the same hash");
  FITSTEP_CHECK(peak_bytes(*program, /*with_external=*/true) >= 0, "no sum of sizes overflows");
  FITSTEP_CHECK(plain_peak_bytes(*program) >= 0, "no sum of sizes overflows");
  return 0;
}
