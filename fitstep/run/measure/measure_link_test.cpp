// Numbers differ from machine to machine; what must hold between them does not.
#include "fitstep/run/measure/measure_link.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {
namespace {

void expect_sound(const Rate& rate) {
  // A mebibyte takes less than a second, and no memory moves a petabyte in one.
  EXPECT_GT(rate.alone_bytes_per_s, int64_t{1} << 20);
  EXPECT_LT(rate.alone_bytes_per_s, int64_t{1} << 50);
  EXPECT_GT(rate.both_bytes_per_s, 0);
  EXPECT_LE(rate.both_bytes_per_s, rate.alone_bytes_per_s);
  EXPECT_GT(rate.latency_ps, 0);
  EXPECT_LT(rate.latency_ps, kPicosecondsPerSecond);
}

TEST(MeasureLink, GivesALinkThatAMachineCanHave) {
  for (const int64_t block_bytes : {int64_t{1} << 14, int64_t{1} << 20}) {
    const Result<Link> link =
        measure_host_link({.threads = 2, .block_bytes = block_bytes, .rounds = 3});
    ASSERT_TRUE(link.has_value()) << link.error().message;
    expect_sound(link->evict);
    expect_sound(link->prefetch);
    EXPECT_GE(link->compute_slowdown, 1.0);
    EXPECT_LT(link->compute_slowdown, 100.0);

    Machine machine = unit_machine();
    machine.tiers = {{.name = "device"}, {.name = "host", .capacity_bytes = 1 << 30}};
    machine.links = {*link};
    const Result<Machine> parsed = parse_machine(print_machine(machine));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(parsed->links.front().upper, TierId(int32_t{0}));
  }
}

TEST(MeasureLink, RefusesWhatCannotBeMeasured) {
  EXPECT_FALSE(measure_host_link({.threads = 0}).has_value());
  EXPECT_FALSE(measure_host_link({.block_bytes = 0}).has_value());
  EXPECT_FALSE(measure_host_link({.rounds = -1}).has_value());
  const Result<Link> huge =
      measure_host_link({.block_bytes = std::numeric_limits<int64_t>::max() / 4});
  ASSERT_FALSE(huge.has_value());
  EXPECT_NE(huge.error().message.find("cannot reserve"), std::string::npos);
}

}  // namespace
}  // namespace fitstep
