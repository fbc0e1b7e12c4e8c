// The allocator with everything of libc10_cuda and libtorch_cuda replaced: PyTorch's own allocator
// is one that gives plain memory and remembers who asked. So this needs neither a GPU nor a build
// of PyTorch that knows one.
#include "fitstep_torch_cuda/step_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fitstep/run/answers.h"

namespace native = c10::cuda::CUDACachingAllocator;
using Pluggable = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

namespace {
c10::DeviceIndex current = 0;
}  // namespace

// What of PyTorch's GPU libraries is called here.
namespace c10::cuda {
DeviceIndex current_device() { return current; }
std::atomic<CUDACachingAllocator::CUDAAllocator*> CUDACachingAllocator::allocator = nullptr;
}  // namespace c10::cuda
Pluggable::CUDAPluggableAllocator(std::function<void*(size_t, int, cudaStream_t)> alloc,
                                  std::function<void(void*, size_t, int, cudaStream_t)> free)
    : alloc_fn_(std::move(alloc)), free_fn_(std::move(free)) {}
c10::DataPtr Pluggable::allocate(size_t) { return {}; }

namespace fitstep::torch_cuda {
namespace {

cudaStream_t stream(uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); }

// PyTorch's own.
class Native final : public Pluggable {
 public:
  Native()
      : Pluggable([](size_t, int, cudaStream_t) -> void* { return nullptr; },
                  [](void*, size_t, int, cudaStream_t) {}) {}

  c10::DataPtr allocate(size_t size) override {
    void* const address = raw_alloc(size);
    return {address, address, &free_own, c10::Device(c10::DeviceType::CUDA, current)};
  }
  void* raw_alloc(size_t size) override {
    requests.push_back(size);
    ++live;
    return std::malloc(size);
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t) override { return raw_alloc(size); }
  void raw_delete(void* address) override { free_own(address); }
  c10::DeleterFnPtr raw_deleter() const override { return &free_own; }
  void cacheInfo(c10::DeviceIndex, size_t* largest) override { *largest = 1000; }
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream) override {
    recorded.push_back(pointer.get());
  }
  void emptyCache(c10::cuda::MempoolId_t) override { ++emptied; }
  std::string name() override { return "native"; }

  static void free_own(void* address) {
    std::free(address);
    --live;
  }

  std::vector<size_t> requests;
  std::vector<void*> recorded;
  int emptied = 0;
  static inline std::atomic<int> live = 0;
};

class StepAllocatorTest : public testing::Test {
 protected:
  StepAllocatorTest() {
    native::allocator = &native_;
    current = 0;
    EXPECT_TRUE(register_arena(arena_.data(), static_cast<int64_t>(arena_.size())).has_value());
  }
  ~StepAllocatorTest() override {
    unregister_arena(arena_.data());
    EXPECT_EQ(native::allocator.load(), &native_);
    EXPECT_EQ(Native::live, 0);
  }

  char* at(size_t offset) { return arena_.data() + offset; }
  static c10::DataPtr ask(size_t size) { return native::get()->allocate(size); }

  std::array<char, 4096> arena_{};
  Native native_;
  Answers answers_{kAddressAlignment};
  // As a plan has it: an op asks for 64 bytes, for an output of the user's, for 32 of workspace.
  std::vector<Expected> expected_ = {{.size_bytes = 64, .address = at(0)},
                                     {.size_bytes = 48, .address = nullptr},
                                     {.size_bytes = 32, .address = at(512)}};
};

TEST_F(StepAllocatorTest, AStepsRequestsLieWhereThePlanHasThemAndTheUsersOutputsAreOrdinary) {
  const StepAllocation step(answers_, 0, stream(1));
  answers_.begin_op(expected_);
  const c10::DataPtr first = ask(64);
  const c10::DataPtr output = ask(48);
  EXPECT_EQ(first.get(), at(0));
  EXPECT_EQ(first.device(), c10::Device(c10::DeviceType::CUDA, 0));
  EXPECT_EQ(output.get_deleter(), &Native::free_own);  // Theirs, so record_stream() works on it.
  EXPECT_EQ(ask(32).get(), at(512));
  EXPECT_EQ(native_.requests, (std::vector<size_t>{48}));
  EXPECT_EQ(answers_.counters().planned, 3);
  EXPECT_EQ(answers_.counters().violations, 0);
}

TEST_F(StepAllocatorTest, BetweenStepsPyTorchsOwnIsBackAndFreesNothingOfTheArena) {
  c10::DataPtr kept;
  {
    const StepAllocation step(answers_, 0, stream(1));
    EXPECT_NE(native::allocator.load(), &native_);
    answers_.begin_op(expected_);
    kept = ask(64);
    answers_.end_op();
  }
  EXPECT_EQ(native::allocator.load(), &native_);
  kept.clear();  // Nobody's free() was called with an address that it does not know.
}

TEST_F(StepAllocatorTest, OtherThreadsAndOtherDevicesGetPyTorchsOwnMemory) {
  const StepAllocation step(answers_, 0, stream(1));
  answers_.begin_op(expected_);
  std::thread([] { EXPECT_EQ(ask(64).get_deleter(), &Native::free_own); }).join();
  current = 1;
  EXPECT_EQ(ask(64).get_deleter(), &Native::free_own);
  current = 0;
  EXPECT_EQ(ask(64).get(), at(0));
  EXPECT_EQ(native_.requests, (std::vector<size_t>{64, 64}));
}

TEST_F(StepAllocatorTest, AnUnforeseenWorkspaceAboveTheMostIsRefusedAsPyTorchRefusesIt) {
  answers_.set_most_unforeseen(100);
  const StepAllocation step(answers_, 0, stream(1));
  answers_.begin_op({});
  try {
    const c10::DataPtr unexpected = ask(101);
    FAIL() << "not refused";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("101 bytes"), std::string::npos);
  }
  EXPECT_NE(ask(100).get(), nullptr);
  EXPECT_EQ(answers_.counters().refused, 1);
  EXPECT_EQ(answers_.counters().violations, 1);
  size_t largest = 0;
  native::get()->cacheInfo(0, &largest);  // Of what PyTorch would have, 1000.
  EXPECT_EQ(largest, 100U);
}

TEST_F(StepAllocatorTest, LibrariesThatAskWithoutATensorAreAnsweredToo) {
  const StepAllocation step(answers_, 0, stream(1));
  answers_.begin_op(expected_);
  void* const first = native::raw_alloc_with_stream(64, stream(1));
  EXPECT_EQ(first, at(0));
  void* const elsewhere = native::raw_alloc_with_stream(48, stream(2));  // A side stream's.
  EXPECT_EQ(native_.requests, (std::vector<size_t>{48}));
  native::raw_delete(elsewhere);
  native::raw_delete(first);
  EXPECT_EQ(Native::live, 0);
}

TEST_F(StepAllocatorTest, StreamsAreNotRecordedForTheArenaOnly) {
  const StepAllocation step(answers_, 0, stream(1));
  answers_.begin_op(expected_);
  const c10::DataPtr planned = ask(64);
  const c10::DataPtr output = ask(48);
  const auto any = c10::cuda::CUDAStream(
      c10::cuda::CUDAStream::UNCHECKED,
      c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CUDA, 0)));
  native::recordStream(planned, any);
  EXPECT_TRUE(native_.recorded.empty());
  native::recordStream(output, any);
  EXPECT_EQ(native_.recorded, (std::vector<void*>{output.get()}));
}

TEST_F(StepAllocatorTest, TheLogOfACallThatIsMeasuredHasAllRequestsAndReleases) {
  const StepAllocation step(answers_, 0, stream(1));
  answers_.start_log();
  {
    const c10::DataPtr first = ask(64);
    native::raw_delete(native::raw_alloc(32));
  }
  const std::vector<MemoryEvent> log = answers_.stop_log();
  ASSERT_EQ(log.size(), 4U);
  EXPECT_EQ(log[0].size_bytes, 64);
  EXPECT_EQ(log[1].size_bytes, 32);
  EXPECT_TRUE(log[2].is_release);
  EXPECT_EQ(log[2].address, log[1].address);
  EXPECT_TRUE(log[3].is_release);
  EXPECT_EQ(log[3].address, log[0].address);
}

TEST_F(StepAllocatorTest, WhatIsMeasuredInALoanIsGivenBackToIt) {
  const StepAllocation step(answers_, 0, stream(1));
  answers_.lend(at(0), 1024);
  {
    const c10::DataPtr first = ask(64);
    const c10::DataPtr second = ask(64);
    EXPECT_EQ(first.get(), at(0));
    EXPECT_EQ(second.get(), at(512));
  }
  EXPECT_EQ(answers_.take_back(), 0);
  EXPECT_TRUE(native_.requests.empty());
}

// Two threads run steps of two arenas; the allocator stays until the last is done.
TEST_F(StepAllocatorTest, StepsOfTwoThreadsOverlap) {
  std::atomic<int> running = 0;
  std::atomic<bool> may_end = false;
  const auto run = [&](size_t offset) {
    Answers answers{kAddressAlignment};
    const std::vector<Expected> expected = {{.size_bytes = 64, .address = at(offset)}};
    const StepAllocation step(answers, 0, stream(1));
    ++running;
    while (running < 2) std::this_thread::yield();
    answers.begin_op(expected);
    EXPECT_EQ(ask(64).get(), at(offset));
    answers.end_op();
    while (!may_end) std::this_thread::yield();
  };
  std::thread first(run, 0);
  std::thread second(run, 2048);
  while (running < 2) std::this_thread::yield();
  EXPECT_NE(native::allocator.load(), &native_);
  may_end = true;
  first.join();
  second.join();
}

TEST_F(StepAllocatorTest, WhatOthersAskOfPyTorchsAllocatorReachesIt) {
  const StepAllocation step(answers_, 0, stream(1));
  native::emptyCache();
  EXPECT_EQ(native_.emptied, 1);
  EXPECT_EQ(native::get()->name(), "native");
}

// A program that puts an allocator of its own in place, for good, while a step runs.
TEST_F(StepAllocatorTest, AnAllocatorThatSomebodyElsePutInPlaceStaysThere) {
  Native other;
  {
    const StepAllocation step(answers_, 0, stream(1));
    native::allocator = &other;
  }
  EXPECT_EQ(native::allocator.load(), &other);
  native::allocator = &native_;
}

}  // namespace
}  // namespace fitstep::torch_cuda
