#include "fitstep/run/answers.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fitstep/base/result.h"

namespace fitstep {
namespace {

// Requests are of whole 64 bytes where that does not matter, and memory is never touched.
class AnswersTest : public testing::Test {
 protected:
  char* at(int64_t offset_bytes) { return memory_.data() + offset_bytes; }
  char* ask(int64_t size_bytes) { return answers_.answer(size_bytes).address; }
  void give_back(char* address) { answers_.note_release(0, address, 0); }

  std::array<char, 1024> memory_{};
  Answers answers_{64};
};

TEST_F(AnswersTest, BesideOpsAndLoansAllIsForOrdinaryMemory) {
  EXPECT_EQ(ask(64), nullptr);
  EXPECT_EQ(answers_.counters().violations, 0);
}

// A result may get the place of an argument, which the kernel has not read yet.
TEST_F(AnswersTest, BytesOfAnArgumentAreNeverFilled) {
  const std::vector<Expected> expected = {
      {.size_bytes = 64, .address = at(0)},
      {.size_bytes = 128, .address = at(64), .is_argument = true}};
  answers_.set_content('x');
  answers_.begin_op(expected);
  EXPECT_EQ(answers_.content_for(answers_.answer(64)), 'x');
  EXPECT_EQ(answers_.content_for(answers_.answer(128)), std::nullopt);
  answers_.end_op();
  answers_.set_content({});
  EXPECT_EQ(answers_.content_for({}), std::nullopt);
}

//   request    1st 64 B    2nd 64 B    3rd 128 B       as the plan says, not as they would pack
//   address    0           256         64
TEST_F(AnswersTest, RequestsOfAnOpGetTheirAddressesInOrder) {
  const std::vector<Expected> expected = {{.size_bytes = 64, .address = at(0)},
                                          {.size_bytes = 64, .address = at(256)},
                                          {.size_bytes = 128, .address = at(64)}};
  answers_.begin_op(expected);
  EXPECT_EQ(ask(64), at(0));
  EXPECT_EQ(ask(64), at(256));
  EXPECT_EQ(ask(128), at(64));
  EXPECT_EQ(answers_.counters().planned, 3);  // All of them.
  answers_.end_op();
  EXPECT_EQ(ask(64), nullptr);
}

// The plan knows this request, and its answer is: ordinary memory.
TEST_F(AnswersTest, AnOutputOfTheUsersIsForOrdinaryMemoryAndNoViolation) {
  const std::vector<Expected> expected = {{.size_bytes = 64, .address = nullptr}};
  answers_.begin_op(expected);
  const Answer answer = answers_.answer(64);
  EXPECT_EQ(answer.address, nullptr);
  EXPECT_FALSE(answer.is_refused);
  EXPECT_EQ(answers_.counters().planned, 1);
  EXPECT_EQ(answers_.counters().violations, 0);
}

// The plan expects 64 bytes first. 128 are unforeseen: one violation, of 128 bytes.
TEST_F(AnswersTest, WhatIsOutOfOrderIsUnforeseenUnlessAnyThreadMayAsk) {
  std::vector<Expected> expected = {{.size_bytes = 64, .address = at(0)},
                                    {.size_bytes = 128, .address = at(64)}};
  answers_.begin_op(expected);
  EXPECT_EQ(ask(128), nullptr);
  EXPECT_EQ(answers_.counters().violations, 1);
  EXPECT_EQ(answers_.counters().violation_bytes, 128);
  for (Expected& one : expected) one.is_any_thread = true;
  answers_.begin_op(expected);
  EXPECT_EQ(ask(128), at(64));
  EXPECT_EQ(ask(64), at(0));
}

//   bytes
//   64 .. 128              | 1 |       request 1 has the bytes of request 0 and 64 more
//    0 .. 64      | 0 |    | 1 |
//                    release of 0
TEST_F(AnswersTest, ARequestWaitsForThoseWhoseBytesItReuses) {
  const std::vector<Expected> expected = {
      {.size_bytes = 64, .address = at(0)},
      {.size_bytes = 128, .address = at(0), .after_release_of = {0}}};
  answers_.begin_op(expected);
  char* const first = ask(64);
  EXPECT_EQ(ask(128), nullptr);  // Unforeseen as long as the bytes are in use.
  give_back(first);
  EXPECT_EQ(ask(128), at(0));
}

TEST_F(AnswersTest, ABlockOfWorkersAnswersAgainOnceItWasReleased) {
  const std::vector<Expected> expected = {
      {.size_bytes = 64, .address = at(0), .is_any_thread = true, .is_reusable = true}};
  answers_.begin_op(expected);
  EXPECT_EQ(ask(64), at(0));
  EXPECT_EQ(ask(64), nullptr);
  give_back(at(0));
  EXPECT_EQ(ask(64), at(0));
}

// 1 and 100 bytes take 64 and 128 of the reserve: 512 + 64 = 576, 576 + 128 = 704 = 512 + 192.
TEST_F(AnswersTest, TheReserveServesWhatIsUnforeseenUntilItIsFull) {
  answers_.set_reserve(at(512), 192);
  answers_.begin_op({});
  EXPECT_EQ(ask(1), at(512));
  EXPECT_EQ(ask(100), at(576));
  EXPECT_EQ(ask(1), nullptr);
  EXPECT_EQ(answers_.counters().unforeseen, 2);
  EXPECT_EQ(answers_.counters().unforeseen_bytes, 1 + 100);
  EXPECT_EQ(answers_.counters().violations, 1);
  answers_.begin_op({});
  EXPECT_EQ(ask(192), at(512));
}

// The reserve has 64 bytes and a workspace may have 128 beside it: 64 lie in the reserve, 128 are a
// violation, 129 are refused.
TEST_F(AnswersTest, UnforeseenRequestsAboveTheMostAreRefusedAndCounted) {
  answers_.set_reserve(at(512), 64);
  answers_.set_most_unforeseen(128);
  const std::vector<Expected> expected = {{.size_bytes = 512, .address = at(0)}};
  answers_.begin_op(expected);
  EXPECT_EQ(ask(512), at(0));  // What the plan knows may be of any size.
  EXPECT_TRUE(answers_.answer(129).is_refused);
  EXPECT_FALSE(answers_.answer(64).is_refused);
  EXPECT_FALSE(answers_.answer(128).is_refused);
  EXPECT_EQ(answers_.counters().refused, 1);
  EXPECT_EQ(answers_.counters().unforeseen, 1);
  EXPECT_EQ(answers_.counters().violations, 1);
}

TEST_F(AnswersTest, ARefusedRequestDoesNotDisturbTheExpectedOnesBehindIt) {
  answers_.set_most_unforeseen(64);
  const std::vector<Expected> expected = {{.size_bytes = 64, .address = at(0)},
                                          {.size_bytes = 128, .address = at(64)}};
  answers_.begin_op(expected);
  EXPECT_EQ(ask(64), at(0));
  EXPECT_TRUE(answers_.answer(1024).is_refused);  // A kernel tries its largest workspace first.
  EXPECT_EQ(ask(128), at(64));
}

// 128 bytes would be in the reserve: what a kernel does with them has other bits, maybe.
TEST_F(AnswersTest, WhatIsAboveTheMostIsRefusedWhereverThereIsRoomForIt) {
  answers_.set_reserve(at(512), 256);
  answers_.set_most_unforeseen(64);
  answers_.begin_op({});
  EXPECT_TRUE(answers_.answer(128).is_refused);
  EXPECT_EQ(ask(64), at(512));
  answers_.end_op();
  answers_.lend(at(0), 512);
  EXPECT_TRUE(answers_.answer(128).is_refused);
  EXPECT_EQ(ask(64), at(0));
  const std::vector<int64_t> spared = {128};
  answers_.set_most_unforeseen(64, spared);
  EXPECT_EQ(ask(128), at(64));
  EXPECT_TRUE(answers_.answer(192).is_refused);
  answers_.set_most_unforeseen(Answers::kNoMost);
  EXPECT_EQ(ask(192), at(192));
}

// An op expects 256 bytes of scratch, then its result of 64. A kernel that finds a way with 128
// gets them there; one that needs none leaves them out, and its result lies where it shall.
TEST_F(AnswersTest, ScratchMayBeLessThanTheOpExpectsOrNone) {
  const std::vector<Expected> expected = {
      {.size_bytes = 256, .address = at(0), .may_be_less = true, .after_release_of = {}},
      {.size_bytes = 64, .address = at(512)}};
  for (const int64_t scratch_bytes : {256, 128, 0}) {
    answers_.begin_op(expected);
    if (scratch_bytes > 0) {
      EXPECT_EQ(ask(scratch_bytes), at(0));
    }
    EXPECT_EQ(ask(64), at(512));
    answers_.end_op();
  }
  answers_.begin_op(expected);
  EXPECT_EQ(ask(257), nullptr);
  EXPECT_EQ(answers_.counters().violations, 1);
  EXPECT_EQ(answers_.counters().planned, 5);
}

// A result of 64 bytes reuses those of the scratch, so it waits for its release.
TEST_F(AnswersTest, LessScratchIsStillWaitedFor) {
  const std::vector<Expected> expected = {
      {.size_bytes = 256, .address = at(0), .may_be_less = true, .after_release_of = {}},
      {.size_bytes = 64, .address = at(0), .after_release_of = {0}}};
  answers_.begin_op(expected);
  EXPECT_EQ(ask(128), at(0));
  EXPECT_EQ(ask(64), nullptr);
  give_back(at(0));
  EXPECT_EQ(ask(64), at(0));
}

TEST_F(AnswersTest, ALoanIsServedFirstFitAndTellsWhatIsStillInUse) {
  answers_.lend(at(0), 256);
  EXPECT_EQ(ask(100), at(0));
  EXPECT_EQ(ask(64), at(128));
  EXPECT_EQ(ask(128), nullptr);  // 64 are left.
  give_back(at(0));
  EXPECT_EQ(ask(128), at(0));
  give_back(at(0));
  EXPECT_EQ(answers_.take_back(), 64);
  EXPECT_EQ(answers_.take_back(), 0);
}

TEST_F(AnswersTest, AddressesInReserveAndLoanAreAlignedAsTheDeviceAsks) {
  Answers answers(256);
  answers.set_reserve(at(0), 512);
  answers.begin_op({});
  EXPECT_EQ(answers.answer(1).address, at(0));
  EXPECT_EQ(answers.answer(1).address, at(256));
  answers.end_op();
  answers.lend(at(0), 512);
  EXPECT_EQ(answers.answer(1).address, at(0));
  EXPECT_EQ(answers.answer(1).address, at(256));
}

TEST_F(AnswersTest, TheLogHasRequestsAndReleasesWithTheirThreads) {
  answers_.start_log();
  answers_.note_request(0, at(0), 64);
  answers_.note_request(1, at(64), 32);
  answers_.note_release(0, at(0), 64);
  const std::vector<MemoryEvent> log = answers_.stop_log();
  answers_.note_request(0, at(0), 64);  // Nobody listens.
  ASSERT_EQ(log.size(), 3U);
  EXPECT_FALSE(log[0].is_release);
  EXPECT_EQ(log[1].thread, 1);
  EXPECT_EQ(log[1].size_bytes, 32);
  EXPECT_TRUE(log[2].is_release);
  EXPECT_EQ(log[2].address, at(0));
}

// Two threads ask for 1,000 blocks each, and each gets its own.
TEST_F(AnswersTest, WorkersOfAnOpNeverGetTheSameAddress) {
  std::vector<char> bytes(size_t{2000} * 64);
  std::vector<Expected> expected(
      2000, {.size_bytes = 64, .address = nullptr, .is_any_thread = true, .after_release_of = {}});
  for (size_t i = 0; i < expected.size(); ++i) expected[i].address = bytes.data() + i * 64;
  answers_.begin_op(expected);
  const auto ask_for_all = [&] {
    for (int i = 0; i < 1000; ++i) ++*ask(64);
  };
  std::thread other(ask_for_all);
  ask_for_all();
  other.join();
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(bytes[i * 64], 1);
}

TEST(ArenaRanges, ContainExactlyTheBytesOfArenasThatAreOpen) {
  ArenaRanges ranges;
  const std::array<char, 256> memory{};
  const char* const base = memory.data();
  ASSERT_TRUE(ranges.add(base + 64, 64).has_value());
  EXPECT_FALSE(ranges.contains(base + 63));
  EXPECT_TRUE(ranges.contains(base + 64));
  EXPECT_TRUE(ranges.contains(base + 127));
  EXPECT_FALSE(ranges.contains(base + 128));
  EXPECT_FALSE(ranges.contains(nullptr));
  ranges.remove(base + 64);
  EXPECT_FALSE(ranges.contains(base + 64));
}

TEST(ArenaRanges, HaveRoomForSixtyFourAndSayWhatToDoThen) {
  ArenaRanges ranges;
  const std::array<char, 65> memory{};
  for (size_t i = 0; i < 64; ++i) ASSERT_TRUE(ranges.add(memory.data() + i, 1).has_value());
  const Status full = ranges.add(memory.data() + 64, 1);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().message,
            "64 arenas are open; call close() on compiled steps that you no longer use");
  ranges.remove(memory.data() + 5);
  EXPECT_TRUE(ranges.add(memory.data() + 64, 1).has_value());
}

}  // namespace
}  // namespace fitstep
