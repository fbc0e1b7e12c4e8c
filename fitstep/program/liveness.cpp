#include "fitstep/program/liveness.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// Most bytes held at once inside one kernel, over the positions of its sequence of requests. An
// output stays from its request on. Requests from worker threads come in any order: then the sum of
// all requests counts.
int64_t kernel_bytes(const std::vector<Request>& requests) {
  int64_t all = 0;
  bool is_ordered = true;
  for (const Request& request : requests) {
    all += request.size_bytes;
    is_ordered = is_ordered && !request.is_any_thread;
  }
  if (!is_ordered) return all;

  int64_t most = 0;
  for (const Request& now : requests) {  // The maximum is reached at the begin of a request.
    int64_t live = 0;
    for (const Request& request : requests) {
      const bool is_held = !request.output.is_none() || now.live.begin < request.live.end;
      if (request.live.begin <= now.live.begin && is_held) live += request.size_bytes;
    }
    most = std::max(most, live);
  }
  return most;
}

bool is_held_at(const Interval& interval, Tick tick) {
  return interval.begin <= tick && tick < interval.end;
}

// Most bytes during each op if storage i is held during `held[i]`. A storage that a kernel requests
// counts from that request on: scratch that the kernel released earlier is not held beside it.
std::vector<int64_t> held_bytes(const Program& program, const std::vector<Interval>& held) {
  const auto ticks = static_cast<Tick>(program.ops.size());
  std::vector<int64_t> change(program.ops.size() + 1, 0);
  for (size_t i = 0; i < held.size(); ++i) {
    const Tick begin = std::min(held[i].begin, ticks);
    const Tick end = std::min(held[i].end, ticks);
    if (begin >= end) continue;
    change[static_cast<size_t>(begin)] += program.storages[i].size_bytes;
    change[static_cast<size_t>(end)] -= program.storages[i].size_bytes;
  }

  std::vector<int64_t> bytes(program.ops.size(), 0);
  int64_t live = 0;
  std::vector<Request> requests;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    live += change[i];
    const auto tick = static_cast<Tick>(i);
    int64_t older = live;  // Held, but not requested by this kernel.
    requests.clear();
    if (program.ops[i].is_optional) {
      bytes[i] = live;
      continue;
    }
    for (Request request : program.ops[i].forms.front().requests) {
      if (!request.output.is_none()) {
        const Interval& output = held[request.output.index()];
        if (!is_held_at(output, tick) || output.begin != tick) continue;
        request.size_bytes = program.storages[request.output.index()].size_bytes;
        older -= request.size_bytes;
      }
      requests.push_back(request);
    }
    bytes[i] = older + kernel_bytes(requests);
  }
  return bytes;
}

int64_t most(const std::vector<int64_t>& bytes) {
  return bytes.empty() ? 0 : std::ranges::max(bytes);
}

}  // namespace

std::vector<Interval> lifetimes(const Program& program) {
  const auto ticks = static_cast<Tick>(program.ops.size());
  std::vector<Interval> lifetime(program.storages.size(), Interval{.begin = ticks, .end = 0});
  const auto use = [&](StorageId storage, Tick tick) {
    Interval& interval = lifetime[storage.index()];
    interval.begin = std::min(interval.begin, tick);
    interval.end = std::max(interval.end, tick + 1);
  };
  for (Tick tick = 0; tick < ticks; ++tick) {
    const Op& op = program.ops[static_cast<size_t>(tick)];
    if (op.is_optional) continue;
    const Form& form = op.forms.front();
    for (const Read& read : form.reads) {
      if (read.kind != ReadKind::ShapeOnly) use(read.storage, tick);
    }
    for (const Write& write : form.writes) use(write.storage, tick);
  }
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    const bool is_used = !is_empty(lifetime[i]);
    if (storage.is_persistent) {
      lifetime[i] = Interval{.begin = 0, .end = ticks};
    } else if (!is_used) {
      lifetime[i] = Interval{};
    } else {
      if (storage.has_content_at_start) lifetime[i].begin = 0;
      if (storage.kind == StorageKind::Output) lifetime[i].end = ticks;
    }
  }
  return lifetime;
}

std::vector<int64_t> live_bytes(const Program& program, bool with_external) {
  std::vector<Interval> held = lifetimes(program);
  for (size_t i = 0; i < held.size(); ++i) {
    if (!with_external && is_external(program.storages[i].kind)) held[i] = Interval{};
  }
  return held_bytes(program, held);
}

int64_t peak_bytes(const Program& program, bool with_external) {
  return most(live_bytes(program, with_external));
}

std::vector<int64_t> plain_bytes(const Program& program) {
  std::vector<Interval> held;
  held.reserve(program.storages.size());
  for (const Storage& storage : program.storages) {
    // A generator's state is not a tensor, so it takes no bytes of an allocator.
    const bool is_tensor = storage.kind != StorageKind::Generator;
    held.push_back(is_tensor ? storage.recorded : Interval{});
  }
  return held_bytes(program, held);
}

int64_t plain_peak_bytes(const Program& program) { return most(plain_bytes(program)); }

int64_t scratch_bytes(const Form& form) {
  std::vector<Request> scratch;
  for (const Request& request : form.requests) {
    if (request.output.is_none()) scratch.push_back(request);
  }
  return kernel_bytes(scratch);
}

}  // namespace fitstep
