// The graphs of the fake: what is recorded, and how it runs.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"
#include "tests/fakes/fake_cuda.h"

namespace fitstep::cuda {

// Where commands of the stream go while it is being recorded; null while it is not.
std::vector<FakeCuda::Command>* FakeCuda::recorded_of(FakeStream& stream) {
  if (!recording_.has_value()) return nullptr;
  const auto found = std::ranges::find(recording_->streams, &stream);
  if (found == recording_->streams.end()) return nullptr;
  return &recording_->commands[static_cast<size_t>(found - recording_->streams.begin())];
}

// What the event is in the graph that is being recorded; null where it is not in one.
std::shared_ptr<FakeCuda::FakeEvent> FakeCuda::recorded_of(FakeEvent* event) const {
  if (!recording_.has_value()) return nullptr;
  const auto found = recording_->events.find(event);
  return found == recording_->events.end() ? nullptr : found->second;
}

void FakeCuda::add_to_recording(FakeStream& stream) {
  recording_->streams.push_back(&stream);
  recording_->commands.emplace_back();
}

void FakeCuda::put(FakeStream& stream, Command command) {
  if (std::vector<Command>* const recorded = recorded_of(stream); recorded != nullptr) {
    recorded->push_back(std::move(command));
  } else {
    stream.commands.push_back(std::move(command));
  }
}

bool FakeCuda::is_recording() const {
  const std::lock_guard guard(mutex_);
  return recording_.has_value();
}

Status FakeCuda::begin_graph(Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  FITSTEP_CHECK(!recording_.has_value(), "a graph is being recorded already");
  recording_.emplace();
  add_to_recording(of(stream));
  if (!options_.runs_recordings) return Done{};
  const auto is_idle = [&] {
    return std::ranges::all_of(streams_, [](const auto& it) { return it->commands.empty(); });
  };
  const Status idle = run_until(is_idle);
  for (const auto& [begin, size_bytes] : memory_) {
    recording_->memory.emplace(begin, std::string(begin, static_cast<size_t>(size_bytes)));
  }
  if (!idle) recording_.reset();
  return idle;
}

// The last that each other stream does has to be waited for by the first.
bool FakeCuda::is_joined() const {
  const std::vector<Command>& first = recording_->commands.front();
  return std::ranges::all_of(recording_->commands, [&](const std::vector<Command>& one) {
    if (&one == &first) return true;
    const auto is_wait = [&](const Command& it) { return it.awaited == one.back().recorded; };
    return one.back().recorded != nullptr && std::ranges::any_of(first, is_wait);
  });
}

Result<Graph> FakeCuda::end_graph(Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_CHECK(recording_ && recording_->streams.front() == &of(stream), "no graph is recorded");
  for (const auto& [begin, bytes] : recording_->memory) {
    std::memcpy(begin, bytes.data(), bytes.size());
  }
  const bool joined = is_joined();
  const Recording recorded = *std::exchange(recording_, std::nullopt);
  FITSTEP_TRY_STATUS(enter());
  if (recorded.error.has_value()) return *recorded.error;
  if (!joined) return Error{ErrorCode::Device, "a stream of the graph does not come back"};
  graphs_.push_back(std::make_unique<FakeGraph>(FakeGraph{.commands = recorded.commands}));
  return reinterpret_cast<Graph>(graphs_.back().get());
}

// Its streams begin behind what is in that one, which goes on when all have ended.
Status FakeCuda::launch(Graph graph, Stream stream) {
  const std::lock_guard guard(mutex_);
  FITSTEP_TRY_STATUS(enter());
  auto& launched = *reinterpret_cast<FakeGraph*>(graph);
  ++launched.launches;
  const auto begin = std::make_shared<FakeEvent>();
  put(of(stream), {.recorded = begin, .recording = 1});
  for (const std::vector<Command>& commands : launched.commands) {
    const auto end = std::make_shared<FakeEvent>();
    auto branch = std::make_unique<FakeStream>();
    branch->is_of_graph = true;
    branch->commands.push_back({.awaited = begin, .recording = 1});
    for (Command command : commands) {
      command.recording = launched.launches;
      branch->commands.push_back(std::move(command));
    }
    branch->commands.push_back({.recorded = end, .recording = 1});
    streams_.push_back(std::move(branch));
    put(of(stream), {.awaited = end, .recording = 1});
  }
  return Done{};
}

void FakeCuda::destroy(Graph graph) {
  const std::lock_guard guard(mutex_);
  const auto is_it = [&](const auto& it) { return reinterpret_cast<Graph>(it.get()) == graph; };
  FITSTEP_CHECK(std::erase_if(graphs_, is_it) == 1, "a graph that is not there");
}

}  // namespace fitstep::cuda
