#include "tests/fakes/fake_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/zero_value_copies.h"
#include "tests/fakes/mock_device.h"

namespace fitstep::cuda {
namespace {

constexpr uint64_t kMostSteps = 4;  // In one call.

}  // namespace

FakeCuda::FakeCuda(const FakeCudaOptions& options) : options_(options), state_(options.seed) {}

FakeCuda::~FakeCuda() {
  FITSTEP_CHECK(memory_.empty(), "memory is still allocated");
  FITSTEP_CHECK(graphs_.empty() && !recording_, "graphs are still there");
  if (error_.has_value()) std::erase_if(streams_, [](const auto& it) { return it->is_of_graph; });
  FITSTEP_CHECK(streams_.empty() && events_.empty(), "streams or events are still there");
}

FakeCuda::FakeStream& FakeCuda::of(Stream stream) { return *reinterpret_cast<FakeStream*>(stream); }
std::shared_ptr<FakeCuda::FakeEvent> FakeCuda::of(Event event) const {
  const auto is_it = [&](const auto& it) { return reinterpret_cast<Event>(it.get()) == event; };
  const auto found = std::ranges::find_if(events_, is_it);
  FITSTEP_CHECK(found != events_.end(), "an event that is not there");
  return *found;
}

Result<FakeCuda::Memory> FakeCuda::memory() {
  const std::lock_guard guard(mutex_);
  return Memory{.free_bytes = options_.memory_bytes - used_bytes(),
                .total_bytes = options_.memory_bytes,
                .own_bytes = used_bytes()};
}

Result<char*> FakeCuda::allocate(int64_t size_bytes) { return reserve(size_bytes); }
Result<char*> FakeCuda::allocate_pinned(int64_t size_bytes) {
  if (size_bytes <= options_.pinned_bytes) return reserve(size_bytes);
  return Error{ErrorCode::Device, fmt::format("page-locking {} bytes failed", size_bytes)};
}
Result<char*> FakeCuda::allocate_pageable(int64_t size_bytes) { return reserve(size_bytes); }
void FakeCuda::free(char* begin) { give_back(begin); }
void FakeCuda::free_pinned(char* begin) { give_back(begin); }
void FakeCuda::free_pageable(char* begin) { give_back(begin); }

void FakeCuda::lock(char* begin, int64_t size_bytes) {
  const std::lock_guard guard(mutex_);
  memory_.emplace(begin, size_bytes);
}

void FakeCuda::unlock(char* begin) {
  const std::lock_guard guard(mutex_);
  FITSTEP_CHECK(memory_.erase(begin) == 1, "memory that was not locked here");
}

Result<char*> FakeCuda::reserve(int64_t size_bytes) {
  const std::lock_guard guard(mutex_);
  const bool fails = allocations_++ == options_.failing_allocation;
  if (fails || size_bytes > options_.memory_bytes - used_bytes()) {
    return Error{ErrorCode::Device, fmt::format("reserving {} bytes failed", size_bytes)};
  }
  const int64_t whole_bytes = align_up(size_bytes, kPageBytes);
  void* begin = std::aligned_alloc(kPageBytes, static_cast<size_t>(whole_bytes));
  FITSTEP_CHECK(begin != nullptr, "no memory for the test");
  std::memset(begin, kRubbish, static_cast<size_t>(whole_bytes));
  memory_.emplace(static_cast<char*>(begin), whole_bytes);
  return static_cast<char*>(begin);
}

void FakeCuda::give_back(char* begin) {
  const std::lock_guard guard(mutex_);
  FITSTEP_CHECK(memory_.erase(begin) == 1, "memory that was not allocated here");
  std::free(begin);
}

Result<Stream> FakeCuda::make_stream() {
  const std::lock_guard guard(mutex_);
  streams_.push_back(std::make_unique<FakeStream>());
  return reinterpret_cast<Stream>(streams_.back().get());
}

Result<Event> FakeCuda::make_event() {
  const std::lock_guard guard(mutex_);
  events_.push_back(std::make_shared<FakeEvent>());
  return reinterpret_cast<Event>(events_.back().get());
}

// Those that ran before an error stay where they are in their streams.
void FakeCuda::destroy(Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_CHECK(of(stream).commands.empty() || error_.has_value(), "the stream is not empty");
  std::erase_if(streams_, [&](const auto& it) { return it.get() == &of(stream); });
}

void FakeCuda::destroy(Event event) {
  const std::lock_guard guard(mutex_);
  std::erase(events_, of(event));
}

bool FakeCuda::owns(const char* address) const {
  const std::lock_guard guard(mutex_);
  return std::ranges::any_of(memory_, [&](const auto& one) {
    return address >= one.first && address < one.first + one.second;
  });
}

int64_t FakeCuda::used_bytes() const {
  int64_t all = 0;
  for (const auto& [begin, size_bytes] : memory_) all += size_bytes;
  return all;
}

Status FakeCuda::enter() {
  if (calls_++ == options_.failing_call) error_ = {ErrorCode::Device, "the call failed"};
  for (uint64_t steps = dice(kMostSteps); steps > 0 && step(); --steps) {
  }
  if (error_.has_value()) return *error_;
  return Done{};
}

Status FakeCuda::copy(char* target, const char* source, int64_t size_bytes, Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  if (recorded_of(of(stream)) != nullptr && options_.runs_recordings) {
    std::memmove(target, source, static_cast<size_t>(size_bytes));
  }
  put(of(stream), {.target = target, .source = source, .size_bytes = size_bytes});
  return Done{};
}

Status FakeCuda::code(const CodedCopy& copy, Coding coding, Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  const auto launch = [&]<class Work>(const Work& work, int64_t items) -> Status {
    const auto run = [work, items] {
      for (int64_t i = 0; i < items; ++i) work(i);
    };
    if (recorded_of(of(stream)) != nullptr && options_.runs_recordings) run();
    put(of(stream), {.op = run});
    return Done{};
  };
  return ZeroValueKernels(copy, launch).put(coding);
}

Status FakeCuda::record(Event event, Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  FakeEvent* const it = of(event).get();
  if (recorded_of(of(stream)) == nullptr) {
    put(of(stream), {.recorded = of(event), .recording = ++it->recorded});
  } else {
    recording_->events[it] = std::make_shared<FakeEvent>();
    put(of(stream), {.recorded = recording_->events[it]});
  }
  return Done{};
}

Status FakeCuda::wait(Stream stream, Event event) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  const std::shared_ptr<FakeEvent> in_graph = recorded_of(of(event).get());
  const bool is_recorded = recorded_of(of(stream)) != nullptr;
  if (in_graph == nullptr && !is_recorded) {
    put(of(stream), {.awaited = of(event), .recording = of(event)->recorded});
    return Done{};
  }
  if (in_graph == nullptr) {
    recording_->error = {ErrorCode::Device, "a recorded stream waits for what is not recorded"};
    return *recording_->error;
  }
  if (!is_recorded) add_to_recording(of(stream));
  put(of(stream), {.awaited = in_graph});
  return Done{};
}

Status FakeCuda::synchronize(Event event) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  const std::shared_ptr<FakeEvent> it = of(event);
  FITSTEP_CHECK(recorded_of(it.get()) == nullptr, "it is being recorded");
  const int64_t recording = it->recorded;
  return run_until([&] { return it->reached >= recording; });
}

Status FakeCuda::synchronize(Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  FITSTEP_CHECK(recorded_of(of(stream)) == nullptr, "it is being recorded");
  return run_until([&] { return of(stream).commands.empty(); });
}

void FakeCuda::launch(Stream stream, std::function<void()> op) {
  const std::lock_guard guard(mutex_);
  put(of(stream), {.op = std::move(op)});
}

Status FakeCuda::run_until(const std::function<bool()>& is_there) {
  while (!is_there() && !error_.has_value()) {
    if (!step()) error_ = {ErrorCode::Device, "streams wait for each other"};
  }
  if (error_.has_value()) return *error_;
  return Done{};
}

uint64_t FakeCuda::dice(uint64_t sides) {
  state_ = state_ * 6364136223846793005U + 1442695040888963407U;
  return (state_ >> 33U) % sides;
}

// One step of one stream that has something to do; false if none has.
bool FakeCuda::step() {
  std::vector<FakeStream*> ready;
  for (const auto& stream : streams_) {
    if (stream->commands.empty()) continue;
    const Command& next = stream->commands.front();
    if (next.awaited == nullptr || next.awaited->reached >= next.recording) {
      ready.push_back(stream.get());
    }
  }
  if (ready.empty() || error_.has_value()) return false;
  step(*ready[dice(ready.size())]);
  std::erase_if(streams_, [](const auto& it) { return it->is_of_graph && it->commands.empty(); });
  return true;
}

void FakeCuda::step(FakeStream& stream) {
  const Command& next = stream.commands.front();
  if (next.target != nullptr) return run_copy(stream);
  if (next.op) next.op();
  if (next.recorded != nullptr) next.recorded->reached = next.recording;
  stream.commands.pop_front();
}

void FakeCuda::run_copy(FakeStream& stream) {
  Command& next = stream.commands.front();
  const auto half = static_cast<size_t>(next.size_bytes / 2);
  const auto whole = static_cast<size_t>(next.size_bytes);
  if (!next.has_begun) {
    next.has_begun = true;
    next.first_half.assign(next.source, half);
    std::memset(next.target, kRubbish, whole);
    return;
  }
  if (copies_++ == options_.failing_copy) {
    error_ = {ErrorCode::Device, "a copy failed"};
    return;
  }
  std::memcpy(next.target + half, next.source + half, whole - half);
  std::memcpy(next.target, next.first_half.data(), half);
  stream.commands.pop_front();
}

}  // namespace fitstep::cuda
