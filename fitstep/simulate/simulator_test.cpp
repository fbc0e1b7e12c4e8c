// On the unit machine: one byte per second, every op one second.
#include "fitstep/simulate/simulator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/programs/pyramid.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

ResidencyId id(int32_t value) { return ResidencyId(value); }

std::vector<int64_t> bytes_of(const Timeline& timeline) {
  std::vector<int64_t> bytes;
  bytes.reserve(timeline.live.size());
  for (const LiveBytes& live : timeline.live) bytes.push_back(live.bytes);
  return bytes;
}

Span span_of(const Timeline& timeline, Lane lane, int32_t position) {
  for (const Span& span : timeline.spans) {
    if (span.lane == lane && span.position == position) return span;
  }
  ADD_FAILURE() << "no such span";
  return {};
}

//   compute  f0 f1 f2 b2 b1 b0
//   bytes     1  2  3  3  2  1
TEST(Simulate, CountsThePyramid) {
  const Program program = program_of(kPyramid);
  const Timeline timeline = simulate(program, keep_all(program), unit_machine());
  EXPECT_EQ(timeline.total_ps, 6 * kSecond);
  EXPECT_EQ(bytes_of(timeline), (std::vector<int64_t>{1, 2, 3, 3, 2, 1}));
  EXPECT_EQ(timeline.peak_bytes, 3);
  ASSERT_EQ(timeline.spans.size(), 6U);
  EXPECT_EQ(timeline.spans[4].begin_ps, 4 * kSecond);
  EXPECT_EQ(timeline.spans[4].end_ps, 5 * kSecond);
  EXPECT_EQ(timeline.spans[4].stall_ps, 0);
}

TEST(Simulate, AddsTheLaunchOfEveryOp) {
  const Program program = program_of(kPyramid);
  Machine machine = unit_machine();
  machine.launch_ps = 5;
  // 6 ops of a second, 6 launches.
  EXPECT_EQ(simulate(program, keep_all(program), machine).total_ps, 6 * kSecond + 30);
}

// w at home; scratch at positions [0, 2) and [3, 4), the output from position 1 on.
//
//   position     0    1    2    3
//   w  64        |-------------------|
//   64           |---------|
//   b  128            |--------------|
//   32                          |----|
constexpr std::string_view kKernel = R"(fitstep program 1
name "kernel"
storage 0 "w" 64 parameter persistent start
storage 1 "b" 128 temporary
storage 2 "c" 128 temporary
storage 3 "out" 64 output
op 0 "g" matmul
form "default" time 1000000000000 reads 0.0 writes 1.1 requests 64@0-2 128@1-9=1 32@3-4
op 1 "gelu" elementwise
form "default" time 1000000000000 reads 1.1 writes 2.1<1
op 2 "sum" reduction
form "default" time 1000000000000 reads 2.1 writes 3.1
end calls 0 storages 4 ops 3
)";

TEST(Simulate, CountsPositionsInsideKernels) {
  const Program program = program_of(kKernel);
  Plan plan = keep_all(program);
  // g: w 64 + scratch 64 + b 128, not the last 32 as well. gelu: w 64 + b 128 + c 128. sum: w + c.
  EXPECT_EQ(bytes_of(simulate(program, plan, unit_machine())),
            (std::vector<int64_t>{256, 320, 192}));
  // Where c takes the bytes of b, gelu needs them once.
  plan.residencies[2].offset_bytes = plan.residencies[1].offset_bytes;
  certify(program, plan);
  expect_valid(program, plan);
  EXPECT_EQ(bytes_of(simulate(program, plan, unit_machine())),
            (std::vector<int64_t>{256, 192, 192}));
  EXPECT_EQ(plan.certificate.peak_bytes, 256);
}

TEST(Simulate, TakesAllRequestsTogetherWhereThreadsMakeThem) {
  Program program = program_of(kKernel);
  program.ops[0].forms[0].requests[2].is_any_thread = true;
  const Plan plan = keep_all(program);
  expect_valid(program, plan);
  // g: w 64 + scratch 64 + b 128 + scratch 32.
  EXPECT_EQ(bytes_of(simulate(program, plan, unit_machine())),
            (std::vector<int64_t>{288, 320, 192}));
}

// `a` is evicted beside two ops and prefetched for the last one, which waits for it:
//
//   second    0    1    2    3    4    5    6
//   compute   |f---|g---|h---|         |b---|      b stalls for 2 seconds
//   evict          |a--------|
//   prefetch                 |a--------|
constexpr std::string_view kOffload = R"(fitstep program 1
name "offload"
storage 0 "x" 1 input start
storage 1 "a" 2 temporary
storage 2 "c" 1 temporary
storage 3 "d" 1 temporary
storage 4 "out" 1 output
op 0 "f" matmul
form "default" time 1000000000000 reads 0.0 writes 1.1
op 1 "g" matmul
form "default" time 1000000000000 reads 0.0 writes 2.1
op 2 "h" matmul
form "default" time 1000000000000 reads 2.1 writes 3.1
op 3 "b" matmul
form "default" time 1000000000000 reads 3.1 1.1 writes 4.1
end calls 0 storages 5 ops 4
)";

Plan offload_plan(const Program& program) {
  Plan plan = keep_all(program);
  plan.residencies.push_back(
      Residency{.storage = StorageId(1), .tier = TierId(1), .size_bytes = 2});
  plan.residencies.push_back(
      Residency{.storage = StorageId(1), .offset_bytes = 192, .size_bytes = 2});
  plan.lane(Lane::Evict) = {Action{.kind = Action::Kind::Copy,
                                   .copy = {id(1), id(5)},
                                   .waits = {{Lane::Compute, 0}},
                                   .releases = {id(1)}}};
  plan.lane(Lane::Prefetch) = {Action{.kind = Action::Kind::Copy,
                                      .copy = {id(5), id(6)},
                                      .waits = {{Lane::Evict, 0}},
                                      .releases = {id(5)}}};
  Action& last = plan.lane(Lane::Compute)[3];
  last.run.reads[1] = id(6);
  last.waits = {{Lane::Prefetch, 0}};
  last.releases = {id(3), id(6)};
  return plan;
}

TEST(Simulate, StallsForWhatIsPrefetchedLate) {
  const Program program = program_of(kOffload);
  const Timeline timeline = simulate(program, offload_plan(program), unit_machine());
  // f 1 s, evict 2 bytes 2 s, prefetch 2 bytes 2 s, b 1 s.
  EXPECT_EQ(timeline.total_ps, 6 * kSecond);
  EXPECT_EQ(span_of(timeline, Lane::Evict, 0).begin_ps, 1 * kSecond);
  EXPECT_EQ(span_of(timeline, Lane::Evict, 0).stall_ps, 1 * kSecond);
  EXPECT_EQ(span_of(timeline, Lane::Prefetch, 0).begin_ps, 3 * kSecond);
  EXPECT_EQ(span_of(timeline, Lane::Compute, 3).begin_ps, 5 * kSecond);
  EXPECT_EQ(span_of(timeline, Lane::Compute, 3).stall_ps, 2 * kSecond);
  // f: a. g: a, c. h: a (leaves as h ends), c, d. b: d and the second a.
  EXPECT_EQ(bytes_of(timeline), (std::vector<int64_t>{2, 3, 4, 3}));
}

TEST(Simulate, SlowsOpsBesideCopies) {
  const Program program = program_of(kOffload);
  Machine machine = unit_machine();
  machine.links[0].compute_slowdown = 2.0;
  const Timeline timeline = simulate(program, offload_plan(program), machine);
  // g takes all of the eviction's 2 s; h begins with the prefetch, which slows it to 2 s as well.
  EXPECT_EQ(span_of(timeline, Lane::Compute, 1).end_ps, 3 * kSecond);
  EXPECT_EQ(span_of(timeline, Lane::Compute, 2).end_ps, 5 * kSecond);
  EXPECT_EQ(timeline.total_ps, 6 * kSecond);
}

TEST(Simulate, SharesALinkBetweenItsDirections) {
  const Program program = program_of(kOffload);
  Machine machine = unit_machine();
  machine.links[0].evict = {.alone_bytes_per_s = 2, .both_bytes_per_s = 1, .latency_ps = kSecond};
  machine.links[0].prefetch = machine.links[0].evict;
  // One after the other each has the link alone: f 1 s, then twice 1 s of latency and 2 bytes at 2
  // bytes per second, b 1 s.
  EXPECT_EQ(simulate(program, offload_plan(program), machine).total_ps, 6 * kSecond);

  // Both at once behind f (not valid, but time is all that is asked for here).
  Plan plan = offload_plan(program);
  plan.lane(Lane::Prefetch)[0].waits = {{Lane::Compute, 0}};
  const Timeline timeline = simulate(program, plan, machine);
  // 1 s of latency and 2 bytes at 1 byte per second, in both directions.
  EXPECT_EQ(span_of(timeline, Lane::Evict, 0).end_ps, 4 * kSecond);
  EXPECT_EQ(span_of(timeline, Lane::Prefetch, 0).end_ps, 4 * kSecond);
}

// The same by way of the disk.
Plan disk_plan(const Program& program) {
  Plan plan = offload_plan(program);
  plan.residencies[5].tier = kDiskTier;
  std::swap(plan.lane(Lane::Evict), plan.lane(Lane::DiskWrite));
  std::swap(plan.lane(Lane::Prefetch), plan.lane(Lane::DiskRead));
  plan.lane(Lane::DiskRead)[0].waits = {{Lane::DiskWrite, 0}};
  plan.lane(Lane::Compute)[3].waits = {{Lane::DiskRead, 0}};
  return plan;
}

TEST(Simulate, TakesForADiskCopyAsLongAsTheSlowerLink) {
  const Program program = program_of(kOffload);
  const Plan plan = disk_plan(program);
  Machine machine = unit_machine();
  // f 1 s, 2 bytes down 2 s, 2 bytes up 2 s, b 1 s: each piece is on both links at once.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 6 * kSecond);
  machine.links[0].evict.alone_bytes_per_s = 2;  // The disk's link is the slower one now.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 6 * kSecond);
  machine.links[1].evict.alone_bytes_per_s = 2;
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 5 * kSecond);
}

// The host's link is in use for a quarter of the time that the disk takes.
TEST(Simulate, SlowsOpsAsFarAsALinkIsInUse) {
  const Program program = program_of(kOffload);
  Machine machine = unit_machine();
  machine.links[0].evict.alone_bytes_per_s = 4;
  machine.links[0].prefetch.alone_bytes_per_s = 4;
  machine.links[0].compute_slowdown = 3.0;
  const Timeline timeline = simulate(program, disk_plan(program), machine);
  // 1.5 times as long beside either copy, from 1 s to 5 s.
  EXPECT_EQ(span_of(timeline, Lane::Compute, 1).end_ps, 2 * kSecond + kSecond / 2);
  EXPECT_EQ(span_of(timeline, Lane::Compute, 2).end_ps, 4 * kSecond);
  EXPECT_EQ(timeline.total_ps, 6 * kSecond);
  machine.links[1].compute_slowdown = 2.0;  // The worse of the two.
  EXPECT_EQ(span_of(simulate(program, disk_plan(program), machine), Lane::Compute, 1).end_ps,
            3 * kSecond);
}

// One of a's 2 bytes is left in the code,
Program half_coded() {
  Program program = program_of(kOffload);
  program.storages[1].zero_value_bytes = 1;
  return program;
}

// which both of its copies are made in,
Plan coded_plan(const Program& program) {
  Plan plan = disk_plan(program);
  plan.residencies[5].code = Code::ZeroValue;
  return plan;
}

// and the host's link takes no time worth mentioning.
Machine quick_host() {
  Machine machine = unit_machine();
  machine.links[0].evict.alone_bytes_per_s = 1'000'000'000;
  machine.links[0].prefetch.alone_bytes_per_s = 1'000'000'000;
  return machine;
}

TEST(Simulate, TakesForACodedCopyWhatTheFileOrTheCodingTakes) {
  Program program = half_coded();
  const Plan plan = coded_plan(program);
  Machine machine = quick_host();
  // f 1 s, 1 byte down 1 s, 1 byte up 1 s, b 1 s.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 4 * kSecond);
  machine.codecs = {{.name = "zero_value", .encode_bytes_per_s = 1, .decode_bytes_per_s = 4}};
  // Encoding 2 s and the file 1 s, by two threads in turns: 1.5 s. Decoding 0.5 s is not seen.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 4 * kSecond + kSecond / 2);
  program.storages[1].zero_value_bytes = 0;  // Nobody knows: both bytes.
  machine.codecs.clear();
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 6 * kSecond);
}

TEST(Simulate, TakesForACodedCopyToTheHostWhatOneThreadCodesOrTheLink) {
  const Program program = half_coded();
  Plan plan = offload_plan(program);
  plan.residencies[5].code = Code::ZeroValue;
  Machine machine = quick_host();
  machine.codecs = {{.name = "zero_value", .encode_bytes_per_s = 1, .decode_bytes_per_s = 2}};
  // f 1 s, 2 bytes encoded 2 s and decoded 1 s, b 1 s.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 5 * kSecond);
  machine.links[0].evict.alone_bytes_per_s = 1;
  machine.links[0].prefetch.alone_bytes_per_s = 1;  // All bytes are read: no less than the link.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 6 * kSecond);
  machine = quick_host();
  machine.codecs = {{.name = "zero_value",
                     .encode_bytes_per_s = 1,
                     .decode_bytes_per_s = 2,
                     .compute_slowdown = 2.0}};
  // Ops beside a copy take twice as long: the second one 2 s.
  EXPECT_EQ(span_of(simulate(program, plan, machine), Lane::Compute, 1).end_ps, 3 * kSecond);
}

TEST(Simulate, HasTheLinkCarryWhatTheDeviceHasCoded) {
  const Program program = half_coded();
  Plan plan = offload_plan(program);
  plan.residencies[5].code = Code::ZeroValue;
  Machine machine = unit_machine();
  machine.codecs = {
      {.name = "zero_value",
       .encode_bytes_per_s = std::numeric_limits<int64_t>::max(),
       .decode_bytes_per_s = std::numeric_limits<int64_t>::max()},
      {.name = "zstd", .encode_bytes_per_s = 1, .decode_bytes_per_s = 1, .is_on_device = true}};
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 6 * kSecond) << "by no kernel";
  machine.codecs[0].is_on_device = true;
  // f 1 s, 1 byte of 2 down 1 s and up 1 s, b 1 s.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 4 * kSecond);
  machine.codecs[0].encode_bytes_per_s = 1;  // The kernels take 2 s for both bytes, and then 1 s.
  EXPECT_EQ(simulate(program, plan, machine).total_ps, 6 * kSecond);
}

// Encoding 2 s and the file 1 s: 1.5 s for the copy, in which 4/3 threads code.
TEST(Simulate, SlowsOpsDownWhileCopiesAreCoded) {
  Program program = half_coded();
  const Plan plan = coded_plan(program);
  Machine machine = quick_host();
  machine.codecs = {{.name = "zero_value",
                     .encode_bytes_per_s = 1,
                     .decode_bytes_per_s = std::numeric_limits<int64_t>::max(),
                     .compute_slowdown = 1.75}};
  // 1 + 0.75 * 4/3: the op beside it is half as fast for its 1.5 s, so it has done 0.75 of its 1 s.
  EXPECT_EQ(span_of(simulate(program, plan, machine), Lane::Compute, 1).end_ps,
            2 * kSecond + 3 * kSecond / 4);
}

// x goes to the host while a goes to the disk (not valid, but time is all that is asked for here).
TEST(Simulate, SharesALinkBetweenCopiesToHostAndDisk) {
  const Program program = program_of(kOffload);
  Plan plan = disk_plan(program);
  plan.residencies.push_back({.storage = StorageId(1), .tier = kHostTier, .size_bytes = 6});
  plan.residencies[1].size_bytes = 6;
  plan.residencies[5].size_bytes = 6;
  plan.residencies[6].size_bytes = 6;
  plan.lane(Lane::Evict) = {
      Action{.kind = Action::Kind::Copy, .copy = {id(1), id(7)}, .waits = {{Lane::Compute, 0}}}};
  Machine machine = unit_machine();
  machine.links[0].evict = {.alone_bytes_per_s = 3, .both_bytes_per_s = 3};
  const Timeline slow = simulate(program, plan, machine);
  // The disk takes 1 of 3 bytes per second for 6 s; the host's 6 bytes have the other 2, so 3 s.
  EXPECT_EQ(span_of(slow, Lane::Evict, 0).end_ps, 4 * kSecond);
  EXPECT_EQ(span_of(slow, Lane::DiskWrite, 0).end_ps, 7 * kSecond);
  machine.links[1].evict = {.alone_bytes_per_s = 3, .both_bytes_per_s = 3};
  const Timeline quick = simulate(program, plan, machine);
  // 12 bytes at 3 bytes per second, half for each.
  EXPECT_EQ(span_of(quick, Lane::Evict, 0).end_ps, 5 * kSecond);
  EXPECT_EQ(span_of(quick, Lane::DiskWrite, 0).end_ps, 5 * kSecond);
}

// The simulator's peak is by time and the certificate's by happens-before: on one lane the same.
TEST(Simulate, PeakIsTheCertificatesOnOneLane) {
  const Machine machine = unit_machine();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = random_program(seed);
    const Plan plan = keep_all(program);
    expect_valid(program, plan);
    EXPECT_EQ(simulate(program, plan, machine).peak_bytes, plan.certificate.peak_bytes) << seed;
  }
}

}  // namespace
}  // namespace fitstep
