// The reader of plan files and, behind it, the verifier: any text is refused, or is a plan whose
// own text means the same; and whatever plan it is, the verifier answers.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/programs/pyramid.h"

namespace fitstep {
namespace {

// The plan, also where only its checksum is wrong: no fuzzer guesses that.
Result<Plan> parse_with_any_checksum(std::string_view text) {
  Result<Plan> plan = parse_plan(text);
  if (plan.has_value()) return plan;
  constexpr std::string_view kActual = "its content has checksum ";
  constexpr std::string_view kField = "\"checksum\": \"";
  const size_t actual = plan.error().message.find(kActual);
  const size_t stated = text.rfind(kField);
  if (actual == std::string::npos || stated == std::string_view::npos) return plan;
  constexpr size_t kDigits = 16;
  const size_t begin = stated + kField.size();
  const size_t end = text.find('"', begin);
  if (end == std::string_view::npos) return plan;
  std::string mended(text.substr(0, begin));
  mended += plan.error().message.substr(actual + kActual.size(), kDigits);
  mended += text.substr(end);
  return parse_plan(mended);
}

}  // namespace
}  // namespace fitstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fitstep;  // NOLINT(google-build-using-namespace): the body of a main.
  static const Program program = parse_program(kPyramid).value();
  static const std::string hash = hash_program(program);
  Result<Plan> plan = parse_with_any_checksum(fuzz_text(data, size));
  if (!plan.has_value()) {
    FITSTEP_CHECK(!plan.error().message.empty(), "an error says what is wrong");
    return 0;
  }
  const Result<Plan> again = parse_plan(print_plan(*plan));
  FITSTEP_CHECK(again.has_value() && *again == *plan, "printed and read is equal");
  plan->program_hash = hash;
  const Limits limits{.capacity_bytes = {int64_t{1} << 20, int64_t{1} << 20}};
  const std::vector<Fault> faults = verify(program, *plan, limits);
  FITSTEP_CHECK(faults.size() <= kMaxFaults, "no more faults than promised");
  for (const Fault& fault : faults) FITSTEP_CHECK(!fault.message.empty(), "a fault says which");
  return 0;
}
