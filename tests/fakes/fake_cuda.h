// A fake CUDA runtime without a GPU: streams run in this process, in any order that their events
// allow.
//
//   stream 1   | op | copy, first half | ... | copy, second half |
//   stream 2        | wait for event 3 |                           the seed chooses who goes next
//
// A command does not run when it is queued. Every call makes a few steps of randomly chosen
// streams; a synchronizing call makes steps until its condition holds. Between its halves a copy
// leaves garbage in its target. A later call, and every call after that, reports the error of a
// copy.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {

struct FakeCudaOptions {
  uint64_t seed = 0;
  int32_t failing_call = -1;  // The n-th that queues or synchronizes something; it and all later.
  int32_t failing_copy = -1;  // The n-th that runs.
  int32_t failing_allocation = -1;
  int64_t pinned_bytes = int64_t{1} << 32;  // The most that one call page-locks.
  int64_t memory_bytes = int64_t{1} << 32;
  // For kernels that run on the host when called: copies also run while they are recorded, and
  // memory is restored at the end.
  bool runs_recordings = false;
};

class FakeCuda final : public Calls {
 public:
  explicit FakeCuda(const FakeCudaOptions& options);
  ~FakeCuda() override;  // Checks that everything was given back.

  std::string device_name() const override { return "fake"; }
  Result<Memory> memory() override;
  Result<char*> allocate(int64_t size_bytes) override;
  Result<char*> allocate_pinned(int64_t size_bytes) override;
  Result<char*> allocate_pageable(int64_t size_bytes) override;
  void free(char* begin) override;
  void free_pinned(char* begin) override;
  void free_pageable(char* begin) override;
  Result<Stream> make_stream() override;
  Result<Event> make_event() override;
  void destroy(Stream stream) override;
  void destroy(Event event) override;
  Status copy(char* target, const char* source, int64_t size_bytes, Stream stream) override;
  Status code(const CodedCopy& copy, Coding coding, Stream stream) override;
  Status record(Event event, Stream stream) override;
  Status wait(Stream stream, Event event) override;
  Status begin_graph(Stream stream) override;
  Result<Graph> end_graph(Stream stream) override;
  Status launch(Graph graph, Stream stream) override;
  void destroy(Graph graph) override;
  Status synchronize(Event event) override;
  Status synchronize(Stream stream) override;

  // Puts an op into a stream, as a kernel launch does.
  void launch(Stream stream, std::function<void()> op);

  bool is_recording() const;

  // Page-locks memory that was allocated elsewhere, until it is given back.
  void lock(char* begin, int64_t size_bytes);
  void unlock(char* begin);

  // Whether the address is in memory that was allocated or locked here.
  bool owns(const char* address) const;

  int32_t calls() const { return calls_; }
  int32_t copies() const { return copies_; }

 private:
  struct FakeEvent {
    int64_t recorded = 0;  // How often it was put into a stream,
    int64_t reached = 0;   // and the last of these that was reached.
  };
  struct Command {
    std::function<void()> op;  // Empty for others.
    // Reaches that recording of the event, or runs once it is reached. Events that were destroyed
    // live on in streams.
    std::shared_ptr<FakeEvent> recorded = nullptr;
    std::shared_ptr<FakeEvent> awaited = nullptr;
    int64_t recording = 0;
    char* target = nullptr;  // Of a copy.
    const char* source = nullptr;
    int64_t size_bytes = 0;
    std::string first_half;  // Once it has begun.
    bool has_begun = false;
  };
  struct FakeStream {
    std::deque<Command> commands;
    bool is_of_graph = false;  // Gone once it is empty.
  };
  // What was recorded, by stream; that which began is the first.
  struct FakeGraph {
    std::vector<std::vector<Command>> commands;
    int64_t launches = 0;
  };
  struct Recording {
    std::vector<FakeStream*> streams;
    std::vector<std::vector<Command>> commands;  // Of these streams.
    std::map<FakeEvent*, std::shared_ptr<FakeEvent>> events;
    std::map<char*, std::string> memory;  // As it was.
    std::optional<Error> error;
  };

  static FakeStream& of(Stream stream);
  std::shared_ptr<FakeEvent> of(Event event) const;
  Result<char*> reserve(int64_t size_bytes);
  void give_back(char* begin);
  int64_t used_bytes() const;
  Status enter();
  std::vector<Command>* recorded_of(FakeStream& stream);
  std::shared_ptr<FakeEvent> recorded_of(FakeEvent* event) const;
  bool is_joined() const;
  void add_to_recording(FakeStream& stream);
  void put(FakeStream& stream, Command command);
  uint64_t dice(uint64_t sides);
  bool step();
  void step(FakeStream& stream);
  void run_copy(FakeStream& stream);
  Status run_until(const std::function<bool()>& is_there);

  mutable std::mutex mutex_;
  FakeCudaOptions options_;
  uint64_t state_ = 0;
  int32_t calls_ = 0;
  int32_t copies_ = 0;
  int32_t allocations_ = 0;
  std::optional<Error> error_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::shared_ptr<FakeEvent>> events_;
  std::vector<std::unique_ptr<FakeGraph>> graphs_;
  std::optional<Recording> recording_;
  std::map<char*, int64_t> memory_;  // With its bytes.
};

}  // namespace fitstep::cuda
