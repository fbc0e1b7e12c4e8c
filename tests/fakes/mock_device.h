// A software device: memory is real, time is virtual, and every call fails on demand. Its file is
// memory, too.
//
//   clock     0    3         9   11       20
//   compute   | f0 |   f1    |   waits    | b1       the seed chooses how long actions take
//   evict          |   a0    |
//   prefetch                     |  a0    |
//
// It has one thread: a call on the compute lane moves the clock on, and runs the copies that fall
// into this time, in the order of their virtual times. A copy reads its source at its begin, leaves
// garbage in its target until its end, and then writes only bytes that have not changed. A copy in
// a code writes what the coder makes of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"

namespace fitstep {

struct MockOptions {
  uint64_t seed = 0;
  int64_t most_ticks = 20;  // Of one action; by dice between nothing and this.
  // Ticks of the action at a position of a lane; without it they are random.
  std::function<int64_t(Lane, int32_t)> ticks = {};
  int32_t failing_copy = -1;  // The n-th of the device, over all its lanes and steps.
  int32_t failing_reserve = -1;
};

class MockDevice final : public Device {
 public:
  explicit MockDevice(const MockOptions& options) : options_(options) {}
  ~MockDevice() override;

  std::string name() const override { return "mock"; }
  Result<char*> reserve(TierId tier, int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;

  // Number of copies requested so far.
  int32_t copies() const { return copies_; }
  // Of these, those that have left a code below.
  int32_t coded() const { return coded_; }
  // Ticks of the last step, until all lanes have ended.
  int64_t step_ticks() const { return step_ticks_; }

  // Of one action of one step.
  int64_t ticks(Lane lane, int32_t position) const;
  // Whether the copy that ends now succeeds. Called once per copy.
  Status end_copy();
  void note_coded() { ++coded_; }
  // For lanes: a step begins; false if one is running.
  bool begin_step();
  void end_step(int64_t now);
  char* file() { return file_.data(); }

 private:
  MockOptions options_;
  std::map<char*, int64_t> reserved_;  // Sizes by begin.
  int32_t reserves_ = 0;
  int32_t copies_ = 0;
  int32_t coded_ = 0;
  int32_t steps_ = 0;
  int64_t step_ticks_ = 0;
  bool is_running_ = false;
  std::vector<char> file_;
};

inline constexpr char kRubbish = '\x5a';
inline constexpr int64_t kPageBytes = 4096;  // Of memory of the system.

}  // namespace fitstep
