// A storage of 8 bytes has 5 in zero-value code; in zstd its size is not known. The CPU encodes 2
// bytes per second and decodes 4.
#include "fitstep/simulate/coded_copies.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/lane_clock.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

Storage test_storage() { return {.name = "a", .size_bytes = 8, .zero_value_bytes = 5}; }

Machine coding_machine() {
  Machine machine = unit_machine();
  machine.codecs = {{.name = "zstd", .encode_bytes_per_s = 1, .decode_bytes_per_s = 1},
                    {.name = "zero_value",
                     .encode_bytes_per_s = 2,
                     .decode_bytes_per_s = 4,
                     .compute_slowdown = 1.5}};
  return machine;
}

// The GPU codes 8 bytes per second.
Machine machine_that_codes_on_device() {
  Machine machine = coding_machine();
  machine.codecs.push_back({.name = "zero_value",
                            .encode_bytes_per_s = 8,
                            .decode_bytes_per_s = 8,
                            .is_on_device = true});
  return machine;
}

Work copy_to(TierId lower, Direction direction = Direction::Evict) {
  return {.is_copy = true,
          .size_bytes = 8,
          .route = {.upper = kDeviceTier, .lower = lower, .direction = direction}};
}

Work coded(const Machine& machine, Code code, Work work) {
  put_code(test_storage(), code, machine, work);
  return work;
}

TEST(HasCopyCode, IsForTheTwoTiersBelowTheDevice) {
  for (const TierId tier : {kHostTier, kDiskTier}) {
    EXPECT_TRUE(has_copy_code({.tier = tier, .code = Code::Zstd}));
    EXPECT_FALSE(has_copy_code({.tier = tier, .code = Code::None}));
  }
  for (const TierId tier : {kDeviceTier, kExternalTier}) {
    EXPECT_FALSE(has_copy_code({.tier = tier, .code = Code::Zstd}));
  }
}

TEST(CodedBytes, AreThoseOfTheExampleAndNeverMoreThanPlain) {
  Storage storage = test_storage();
  EXPECT_EQ(coded_bytes(storage, Code::ZeroValue), 5);
  EXPECT_EQ(coded_bytes(storage, Code::Zstd), std::nullopt);
  EXPECT_EQ(coded_bytes(storage, Code::None), std::nullopt);
  storage.zstd_bytes = 9;
  EXPECT_EQ(coded_bytes(storage, Code::Zstd), 8);
}

TEST(CodecOf, HasTheNameOfTheCodeAndBothRates) {
  Machine machine = coding_machine();
  EXPECT_EQ(codec_of(machine, Code::ZeroValue, kDiskTier), machine.codecs[1]);
  EXPECT_EQ(codec_of(machine, Code::Zstd, kHostTier), machine.codecs[0]);
  EXPECT_EQ(codec_of(machine, Code::None, kDiskTier), std::nullopt);
  machine.codecs[0].encode_bytes_per_s = 0;
  machine.codecs[1].decode_bytes_per_s = 0;
  EXPECT_EQ(codec_of(machine, Code::Zstd, kHostTier), std::nullopt);
  EXPECT_EQ(codec_of(machine, Code::ZeroValue, kDiskTier), std::nullopt);
}

// Then the CPU codes for the disk alone.
TEST(CodecOf, IsTheDevicesForTheHostWhereADeviceCodes) {
  const Machine machine = machine_that_codes_on_device();
  EXPECT_EQ(codec_of(machine, Code::ZeroValue, kHostTier), machine.codecs[2]);
  EXPECT_EQ(codec_of(machine, Code::ZeroValue, kDiskTier), machine.codecs[1]);
  EXPECT_EQ(codec_of(machine, Code::Zstd, kHostTier), std::nullopt);
}

TEST(PutCode, CountsAllPlainBytesAtTheRateOfTheDirection) {
  const Machine machine = coding_machine();
  const Work down = coded(machine, Code::ZeroValue, copy_to(kDiskTier));
  EXPECT_EQ(down.coded_bytes, 5);
  EXPECT_EQ(down.code_ps, 4 * kSecond);  // 8 bytes at 2 per second.
  EXPECT_EQ(down.coders, 2);
  EXPECT_EQ(down.code_slowdown, 1.5);
  EXPECT_FALSE(down.is_coded_on_device);
  EXPECT_EQ(down.size_bytes, 8) << "the device's link carries the plain bytes";
  const Work up = coded(machine, Code::ZeroValue, copy_to(kDiskTier, Direction::Prefetch));
  EXPECT_EQ(up.code_ps, 2 * kSecond);  // 8 at 4.
  EXPECT_EQ(coded(machine, Code::ZeroValue, copy_to(kHostTier)).coders, 1);
}

TEST(PutCode, CopiesAllBytesWhereTheCodedSizeIsNotKnown) {
  const Work work = coded(coding_machine(), Code::Zstd, copy_to(kDiskTier));
  EXPECT_EQ(work.coded_bytes, 8);
  EXPECT_EQ(work.code_ps, 8 * kSecond);  // 8 bytes at 1 per second.
}

TEST(PutCode, TakesNoTimeForCodingWhereTheRateIsNotKnown) {
  const Work work = coded(unit_machine(), Code::ZeroValue, copy_to(kDiskTier));
  EXPECT_EQ(work.coded_bytes, 5);
  EXPECT_EQ(work.code_ps, 0);
}

TEST(PutCode, MarksCopiesThatTheDeviceCodes) {
  const Work work = coded(machine_that_codes_on_device(), Code::ZeroValue, copy_to(kHostTier));
  EXPECT_TRUE(work.is_coded_on_device);
  EXPECT_EQ(work.code_ps, kSecond);  // 8 bytes at 8 per second.
}

// The host's link has 4 bytes per second, the disk's 1.
int64_t alone_ps(Machine machine, const Work& work) {
  machine.links[0].evict.alone_bytes_per_s = 4;
  LaneClock clock(machine);
  clock.start(Lane::Evict, work);
  EXPECT_TRUE(clock.advance());
  EXPECT_FALSE(clock.is_busy(Lane::Evict));
  return clock.now_ps();
}

//   plain to the disk     disk |== 8 s ==|                    the slower of 8 / 4 and 8 / 1
//   coded                 disk |= 5 s =|                      5 / 1; two coders: (4 + 5) / 2 = 4.5
//   to the host           coding |= 4 s =|                    of 8 / 4 = 2 and 8 / 2 = 4
//   by the device         coding |1|- 1.25 -|                 8 / 8, then 5 / 4
TEST(PutCode, MakesTheCopyTakeWhatTheDrawingSays) {
  const Machine machine = coding_machine();
  EXPECT_EQ(alone_ps(machine, copy_to(kDiskTier)), 8 * kSecond);
  EXPECT_EQ(alone_ps(machine, coded(machine, Code::ZeroValue, copy_to(kDiskTier))), 5 * kSecond);
  EXPECT_EQ(alone_ps(machine, coded(machine, Code::ZeroValue, copy_to(kHostTier))), 4 * kSecond);
  const Machine device = machine_that_codes_on_device();
  EXPECT_EQ(alone_ps(device, coded(device, Code::ZeroValue, copy_to(kHostTier))), kSecond * 9 / 4);
}

}  // namespace
}  // namespace fitstep
