// The reader of machine profiles: any text is refused, or is a machine with a device and with links
// that move bytes, whose own text means the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "tests/fuzz/fuzz.h"

namespace fitstep {
namespace {

bool moves_bytes(const Rate& rate) {
  return rate.alone_bytes_per_s > 0 && rate.both_bytes_per_s > 0 && rate.latency_ps >= 0;
}

void check(const Machine& machine) {
  FITSTEP_CHECK(!machine.tiers.empty(), "a machine has a device");
  for (const Link& link : machine.links) {
    FITSTEP_CHECK(moves_bytes(link.evict) && moves_bytes(link.prefetch), "links move bytes");
    FITSTEP_CHECK(link.compute_slowdown >= 1, "a copy makes no op faster");
  }
}

}  // namespace
}  // namespace fitstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fitstep;  // NOLINT(google-build-using-namespace): the body of a main.
  const Result<Machine> machine = parse_machine(std::string(fuzz_text(data, size)));
  if (!machine.has_value()) {
    FITSTEP_CHECK(!machine.error().message.empty(), "an error says what is wrong");
    return 0;
  }
  const Result<Machine> again = parse_machine(print_machine(*machine));
  FITSTEP_CHECK(again.has_value() && *again == *machine, "printed and read is equal");
  check(*machine);
  return 0;
}
