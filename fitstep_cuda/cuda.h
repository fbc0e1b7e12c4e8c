// The few calls of the CUDA runtime that a device is made of, as an interface: `runtime.h` has the
// real ones, and tests have some that need no GPU.
//
//   stream   a queue: what is put into it runs in order, some time later
//   event    a place in a queue: reached when all in front of it has run
//
//   stream 1   [ op ] [ op ] (event)
//   stream 2          ....... wait [ copy ]       no thread sleeps for this
//
// A call that fails says so at once or, if it only queued what fails later, from any later call on:
// such errors never go away.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"

// As the runtime names them, so that its header is needed in one file only.
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
  int64_t* sizes = nullptr;  // On the GPU, by piece: bytes in the code; -1 for one as it is.
  char* scratch = nullptr;   // On the GPU: kCodeScratchBytes, of one copy at a time.
};

// Count finds out `sizes` and copies nothing.
enum class Coding { Count, Encode, Decode };

class Calls {
 public:
  Calls() = default;
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  virtual ~Calls() = default;

  virtual std::string device_name() const = 0;

  // Of the GPU's memory: what nobody has, no other process either; all of it; and what allocate()
  // has given.
  struct Memory {
    int64_t free_bytes = 0;
    int64_t total_bytes = 0;
    int64_t own_bytes = 0;
  };
  virtual Result<Memory> memory() = 0;

  // Memory of the GPU, and page-locked memory of the host, on huge pages where the system has them;
  // aligned to 256 bytes and to a page. Memory that the host, or the container that this runs in,
  // does not have is refused: locking it would end the process.
  virtual Result<char*> allocate(int64_t size_bytes) = 0;
  virtual Result<char*> allocate_pinned(int64_t size_bytes) = 0;
  // Memory of the host that is not locked: who queues copies waits for them, and kernels cannot use
  // it.
  virtual Result<char*> allocate_pageable(int64_t size_bytes) = 0;
  virtual void free(char* begin) = 0;
  virtual void free_pinned(char* begin) = 0;
  virtual void free_pageable(char* begin) = 0;

  // Streams that do not wait for the default stream; events that take no time.
  virtual Result<Stream> make_stream() = 0;
  virtual Result<Event> make_event() = 0;
  virtual void destroy(Stream stream) = 0;
  virtual void destroy(Event event) = 0;

  // These put something into a stream and return. Host memory of a copy stays; where it is not
  // page-locked, the copy may be made before the call returns.
  virtual Status copy(char* target, const char* source, int64_t size_bytes, Stream stream) = 0;
  virtual Status code(const CodedCopy& copy, Coding coding, Stream stream) = 0;
  virtual Status record(Event event, Stream stream) = 0;
  virtual Status wait(Stream stream, Event event) = 0;

  // From here to end_graph(), what is put into the stream, and into those that wait for it, does
  // not run: it becomes a graph. All of them have to be waited for by this one in the end, and
  // nothing may be synchronized meanwhile. One at a time; end_graph() ends it whatever it returns.
  virtual Status begin_graph(Stream stream) = 0;
  virtual Result<Graph> end_graph(Stream stream) = 0;

  // Puts the whole graph into a stream.
  virtual Status launch(Graph graph, Stream stream) = 0;
  virtual void destroy(Graph graph) = 0;

  // Sleeps until the event is reached, or the stream is empty.
  virtual Status synchronize(Event event) = 0;
  virtual Status synchronize(Stream stream) = 0;
};

}  // namespace fitstep::cuda
