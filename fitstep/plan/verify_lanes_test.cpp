// Copy lanes: what is not ordered by lanes and waits may happen at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/residency_ids.h"

namespace fitstep {
namespace {

// a is read by g and again by b; in between it is on the host, and d has its bytes:
//
//   compute    f  g     h        b
//   evict         |--a--|
//   prefetch               |--a--|
//   [0, 64)    a0 a0 a0 d  d  d  d        a0, a1: a's two residencies on the device
//   [64, 128)     c  c  c
//   [128, 192)             a1 a1 a1
constexpr std::string_view kOffload = R"(fitstep program 1
name "offload"
storage 0 "x" 64 input start
storage 1 "a" 64 temporary
storage 2 "c" 64 temporary
storage 3 "d" 64 temporary
storage 4 "out" 64 output
op 0 "f" matmul
form "default" reads 0.0 writes 1.1
op 1 "g" matmul
form "default" reads 1.1 writes 2.1
op 2 "h" matmul
form "default" reads 2.1 writes 3.1
op 3 "b" matmul
form "default" reads 3.1 1.1:sign writes 4.1
end calls 0 storages 5 ops 4
)";

class VerifyLanes : public testing::Test {
 protected:
  VerifyLanes() {
    std::vector<Action>& compute = plan_.lane(Lane::Compute);
    // Residency 5 is a on the host, 6 is a back on the device.
    plan_.residencies.push_back(
        Residency{.storage = StorageId(1), .tier = TierId(1), .size_bytes = 64});
    plan_.residencies.push_back(
        Residency{.storage = StorageId(1), .offset_bytes = 128, .size_bytes = 64});
    plan_.residencies[3].offset_bytes = 0;
    evict_.copy = {.source = id(1), .target = id(5)};
    evict_.waits = {{Lane::Compute, 1}};  // g reads a.
    evict_.releases = {id(1)};
    prefetch_.copy = {.source = id(5), .target = id(6)};
    prefetch_.waits = {{Lane::Evict, 0}};
    prefetch_.releases = {id(5)};
    compute[1].releases.clear();
    compute[2].waits = {{Lane::Evict, 0}};  // d has a's bytes.
    compute[3].run.reads[1] = id(6);
    compute[3].waits = {{Lane::Prefetch, 0}};
    compute[3].releases = {id(3), id(6)};
    plan_.program_hash = hash_program(program_);
    // h: c and d, and beside it may be a1, whose prefetch waits only for the eviction.
    plan_.certificate.peak_bytes = 192;
    plan_.certificate.height_bytes = 192;
    plan_.certificate.capacity_bytes = 192;
  }

  static Action copy_action() { return Action{.kind = Action::Kind::Copy}; }
  Action& compute(size_t position) { return plan_.lane(Lane::Compute)[position]; }

  void lay_lanes() {
    plan_.lane(Lane::Evict) = {evict_};
    plan_.lane(Lane::Prefetch) = {prefetch_};
  }
  void expect_sound() {
    lay_lanes();
    expect_valid(program_, plan_, limits_);
  }
  void expect(FaultKind kind, std::string_view message) {
    lay_lanes();
    expect_fault(program_, plan_, limits_, kind, message);
  }

  Program program_ = program_of(kOffload);
  Plan plan_ = keep_all(program_);
  Action evict_ = copy_action();
  Action prefetch_ = copy_action();
  Limits limits_{.capacity_bytes = {192, 64}};
};

TEST_F(VerifyLanes, AcceptsAnOffload) { expect_sound(); }

TEST_F(VerifyLanes, FollowsWaitsOfWaits) {
  compute(2).waits = {{Lane::Prefetch, 0}};  // Which has waited for the eviction.
  compute(3).waits.clear();                  // And h, in front of b, has waited for the prefetch.
  expect_sound();
}

TEST_F(VerifyLanes, AcceptsWaitsThatSayNothingNew) {
  compute(3).waits.push_back({Lane::Compute, 0});
  compute(3).waits.push_back({Lane::Evict, 0});
  expect_sound();
}

TEST_F(VerifyLanes, ReportsAReadThatDoesNotWaitForItsPrefetch) {
  compute(3).waits.clear();
  expect(FaultKind::NotResident, "compute 3 (op 3 b, form 0) reads residency 6");
}

TEST_F(VerifyLanes, ReportsAPrefetchThatDoesNotWaitForTheEviction) {
  prefetch_.waits.clear();
  expect(FaultKind::NotResident, "reads residency 5 (storage 1 a), but does not wait for evict 0");
}

TEST_F(VerifyLanes, ReportsAnEvictionThatDoesNotWaitForTheOp) {
  evict_.waits.clear();
  expect(FaultKind::NotResident, "evict 0 (copy of residency 1 to 5) reads residency 1");
}

// The eviction may end, and a go, while g still reads it.
TEST_F(VerifyLanes, ReportsAReleaseBesideARead) {
  evict_.waits = {{Lane::Compute, 0}};
  expect(FaultKind::WrongVersion,
         "evict 0 (copy of residency 1 to 5) releases residency 1 (storage 1 a), but does not wait "
         "for compute 1");
}

// d comes where a is, while the eviction may still read it.
TEST_F(VerifyLanes, ReportsAnOpThatDoesNotWaitForSpace) {
  compute(2).waits.clear();
  expect(FaultKind::Overlap, "residency 3 (storage 3 d) at [0, 64) overlaps residency 1");
}

TEST_F(VerifyLanes, ReportsAPrefetchThatDoesNotWaitForSpace) {
  plan_.residencies[6].offset_bytes = 64;  // Where c is until h has ended.
  expect(FaultKind::Overlap, "overlaps residency");
  prefetch_.waits.push_back({Lane::Compute, 2});
  plan_.certificate.peak_bytes = 128;  // Now a1 comes when c has gone.
  plan_.certificate.height_bytes = 128;
  expect_sound();
}

TEST_F(VerifyLanes, ReportsAWriteBesideARead) {
  // b reads a1 while a second prefetch may fill it once more.
  compute(3).waits = {{Lane::Prefetch, 0}};
  lay_lanes();
  Action again = prefetch_;
  again.releases = {};
  plan_.lane(Lane::Prefetch) = {again, prefetch_};
  expect_fault(program_, plan_, limits_, FaultKind::NotResident,
               "but does not wait for prefetch 1");
}

TEST_F(VerifyLanes, ReportsWaitsInACircle) {
  evict_.waits.push_back({Lane::Compute, 3});
  expect(FaultKind::Deadlock, "compute 2 (op 2 h, form 0) never starts");
}

TEST_F(VerifyLanes, ReportsAWaitForItself) {
  compute(0).waits = {{Lane::Compute, 0}};
  expect(FaultKind::Deadlock, "compute 0 (op 0 f, form 0) never starts");
}

TEST_F(VerifyLanes, ReportsAWaitForWhatIsNotThere) {
  compute(3).waits = {{Lane::Prefetch, 1}};
  expect(FaultKind::Malformed, "waits for position 1 of lane 2, which does not exist");
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): a lane that is not one is meant.
  compute(3).waits = {{static_cast<Lane>(kLaneCount), 0}};
  expect(FaultKind::Malformed, "waits for position 0 of lane 5");
}

TEST_F(VerifyLanes, ReportsAReadFromTheHost) {
  compute(3).run.reads[1] = id(5);
  expect(FaultKind::NotResident, "reads residency 5 (storage 1 a) on tier 1; ops read the device");
}

TEST_F(VerifyLanes, ReportsWhatTheHostCannotHold) {
  limits_.capacity_bytes[1] = 63;
  expect(FaultKind::OverCapacity, "needs 64 bytes on tier 1, which has 63");
}

// The same with the disk in place of the host: offsets there are multiples of 4096.
class VerifyDiskLanes : public VerifyLanes {
 protected:
  VerifyDiskLanes() {
    plan_.residencies[5].tier = kDiskTier;
    plan_.residencies[5].offset_bytes = 4096;
    compute(2).waits = {{Lane::DiskWrite, 0}};
    compute(3).waits = {{Lane::DiskRead, 0}};
    prefetch_.waits = {{Lane::DiskWrite, 0}};
    limits_.capacity_bytes = {192, 0, 4160};
  }

  void lay_lanes() {
    plan_.lane(Lane::DiskWrite) = {evict_};
    plan_.lane(Lane::DiskRead) = {prefetch_};
  }
  void expect(FaultKind kind, std::string_view message) {
    lay_lanes();
    expect_fault(program_, plan_, limits_, kind, message);
  }
};

TEST_F(VerifyDiskLanes, AcceptsAnOffload) {
  lay_lanes();
  expect_valid(program_, plan_, limits_);
}

TEST_F(VerifyDiskLanes, ReportsAReadThatDoesNotWaitForTheDisk) {
  compute(3).waits.clear();
  expect(FaultKind::NotResident, "reads residency 6 (storage 1 a), but does not wait for disk rea");
}

TEST_F(VerifyDiskLanes, ReportsADiskReadThatDoesNotWaitForTheWrite) {
  prefetch_.waits.clear();
  expect(FaultKind::NotResident, "does not wait for disk write 0");
}

TEST_F(VerifyDiskLanes, ReportsAnOpThatDoesNotWaitForSpace) {
  compute(2).waits.clear();
  expect(FaultKind::Overlap, "residency 3 (storage 3 d) at [0, 64) overlaps residency 1");
}

TEST_F(VerifyDiskLanes, ReportsAnOffsetWithinAPage) {
  plan_.residencies[5].offset_bytes = 4096 + 64;
  limits_.capacity_bytes[2] = 8192;
  expect(FaultKind::Misaligned,
         "residency 5 (storage 1 a) is at offset 4160, not a multiple of 4096");
}

TEST_F(VerifyDiskLanes, ReportsWhatTheDiskCannotHold) {
  limits_.capacity_bytes[2] = 4159;
  expect(FaultKind::OverCapacity, "needs 4160 bytes on tier 2, which has 4159");
  limits_.capacity_bytes.pop_back();
  expect(FaultKind::Malformed, "residency 5 (storage 1 a) is on tier 2; there are 2");
}

TEST_F(VerifyDiskLanes, ReportsACopyOnALaneOfOtherTiers) {
  const auto expect_wrong = [&](Lane lane, const Action& copy, std::string_view message) {
    lay_lanes();
    plan_.lane(Lane::Evict).clear();
    plan_.lane(Lane::Prefetch).clear();
    plan_.lane(lane) = {copy};
    expect_fault(program_, plan_, limits_, FaultKind::Malformed, message);
  };
  expect_wrong(Lane::Evict, evict_, "evict 0 (copy of residency 1 to 5) is from tier 0 to tier 2");
  expect_wrong(Lane::Prefetch, prefetch_,
               "prefetch 0 (copy of residency 5 to 6) is from tier 2 to tier 0");
  expect_wrong(Lane::DiskWrite, prefetch_,
               "disk write 0 (copy of residency 5 to 6) is from tier 2 to tier 0");
  expect_wrong(Lane::DiskRead, evict_,
               "disk read 0 (copy of residency 1 to 5) is from tier 0 to tier 2");
  plan_.residencies[5].tier = kHostTier;
  expect(FaultKind::Malformed, "disk write 0 (copy of residency 1 to 5) is from tier 0 to tier 1");
}

TEST_F(VerifyLanes, ReportsACopyBetweenHostAndDisk) {
  plan_.residencies.push_back(
      Residency{.storage = StorageId(1), .tier = kDiskTier, .size_bytes = 64});
  limits_.capacity_bytes.push_back(64);
  Action down = copy_action();
  down.copy = {.source = id(5), .target = id(7)};
  plan_.lane(Lane::DiskWrite) = {down};
  expect(FaultKind::Malformed, "disk write 0 (copy of residency 5 to 7) is from tier 1 to tier 2");
}

TEST_F(VerifyLanes, ReportsAHomeOnTheDisk) {
  program_.storages[1].is_persistent = true;
  plan_.program_hash = hash_program(program_);
  plan_.residencies[5].tier = kDiskTier;
  plan_.residencies[5].is_home = true;
  limits_.capacity_bytes.push_back(64);
  expect(FaultKind::Malformed, "residency 5 (storage 1 a) is a home on the disk");
}

TEST_F(VerifyLanes, ReportsAnOpOnACopyLane) {
  evict_ = compute(0);
  expect(FaultKind::Malformed, "evict 0 (op 0 f, form 0) runs an op; only the compute lane does");
}

TEST_F(VerifyLanes, ReportsACopyBetweenTwoStorages) {
  prefetch_.copy.target = id(3);
  expect(FaultKind::Malformed,
         "prefetch 0 (copy of residency 5 to 3) must copy between two residencies of one storage");
}

TEST_F(VerifyLanes, ServesAnyReadWithWhatWasInACode) {
  plan_.residencies[5].code = Code::Zstd;
  expect_sound();
  // But it must have been decoded.
  plan_.residencies[6].code = Code::Zstd;
  expect(FaultKind::WrongVersion, "reads residency 6 (storage 1 a), which is coded");
}

TEST_F(VerifyLanes, ReportsCodesThatCountOnTheContent) {
  for (const Code code : {Code::ZeroValue, Code::Zstd}) {
    plan_.residencies[5].code = code;
    plan_.residencies[5].size_bytes = 64;
    expect_sound();
    for (const int64_t other : {0, 63, 65}) {
      plan_.residencies[5].size_bytes = other;
      expect(FaultKind::Malformed,
             fmt::format("residency 5 (storage 1 a) has {} bytes; the storage has 64", other));
    }
  }
}

}  // namespace
}  // namespace fitstep
