// Work on many items by several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace fitstep {

// Calls work(i) once for every i below `count`, in any order, on `threads` threads: this thread and
// `threads` - 1 others. Returns after all calls have returned.
template <class Work>
void for_each_index(int32_t threads, size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  const size_t helpers = std::min(static_cast<size_t>(std::max(threads, 1)), count);
  for (size_t i = 1; i < helpers; ++i) others.emplace_back(take);
  take();
  for (std::thread& other : others) other.join();
}

}  // namespace fitstep
