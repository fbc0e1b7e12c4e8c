// The calls of the CUDA runtime that a device uses, as an interface. `runtime.h` opens the real
// ones; tests have their own, which need no GPU.
//
//   stream   a queue: its work runs in order, some time later
//   event    a place in a queue: reached when all work before it has run
//
//   stream 1   [ op ] [ op ] (event)
//   stream 2          ....... wait [ copy ]       no thread sleeps for this
//
// A call reports its own failure at once. If queued work fails, every later call returns the error.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"

// Names of the runtime, so that only one file needs its header.
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace fitstep::cuda {

using Stream = CUstream_st*;
using Event = CUevent_st*;
using Graph = CUgraphExec_st*;

// A copy whose host side is in zero-value code (zero_value_elements.h).
struct CodedCopy {
  const char* source = nullptr;
  char* target = nullptr;
  int64_t size_bytes = 0;
  int64_t* sizes = nullptr;  // On the GPU, by piece: bytes in the code; -1: plain.
  char* scratch = nullptr;   // On the GPU: kCodeScratchBytes, for one copy at a time.
};

// Count computes `sizes` and copies nothing.
enum class Coding { Count, Encode, Decode };

class Calls {
 public:
  Calls() = default;
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  virtual ~Calls() = default;

  virtual std::string device_name() const = 0;

  // Bytes of the GPU's memory: free for any process; all; allocated by allocate().
  struct Memory {
    int64_t free_bytes = 0;
    int64_t total_bytes = 0;
    int64_t own_bytes = 0;
  };
  virtual Result<Memory> memory() = 0;

  // Memory of the GPU, aligned to 256 bytes, and page-locked memory of the host, aligned to a page
  // and on huge pages if the system has them. allocate_pinned() refuses more than the host or its
  // container has: locking it would kill the process.
  virtual Result<char*> allocate(int64_t size_bytes) = 0;
  virtual Result<char*> allocate_pinned(int64_t size_bytes) = 0;
  // Pageable memory of the host: queueing a copy waits for the copy, and kernels cannot use it.
  virtual Result<char*> allocate_pageable(int64_t size_bytes) = 0;
  virtual void free(char* begin) = 0;
  virtual void free_pinned(char* begin) = 0;
  virtual void free_pageable(char* begin) = 0;

  // Streams that do not wait for the default stream; events without timing.
  virtual Result<Stream> make_stream() = 0;
  virtual Result<Event> make_event() = 0;
  virtual void destroy(Stream stream) = 0;
  virtual void destroy(Event event) = 0;

  // These queue work in a stream and return. Host memory of a copy must stay. A copy of pageable
  // memory may run before the call returns.
  virtual Status copy(char* target, const char* source, int64_t size_bytes, Stream stream) = 0;
  virtual Status code(const CodedCopy& copy, Coding coding, Stream stream) = 0;
  virtual Status record(Event event, Stream stream) = 0;
  virtual Status wait(Stream stream, Event event) = 0;

  // Until end_graph(), work queued in the stream, and in streams that wait for it, becomes a graph
  // and does not run. At the end the stream must wait for those streams. Do not synchronize
  // meanwhile. One graph at a time; end_graph() ends recording also with an error.
  virtual Status begin_graph(Stream stream) = 0;
  virtual Result<Graph> end_graph(Stream stream) = 0;

  // Queues the whole graph in a stream.
  virtual Status launch(Graph graph, Stream stream) = 0;
  virtual void destroy(Graph graph) = 0;

  // Sleep until the event is reached, or the stream is empty.
  virtual Status synchronize(Event event) = 0;
  virtual Status synchronize(Stream stream) = 0;
};

}  // namespace fitstep::cuda
