// The clock of the lanes: the duration of each action while other lanes run too.
//
//   compute   |--- op ---------|              a copy slows ops down,
//   evict         |--- copy ---|-----|        two directions of one link share it,
//   prefetch                   |- copy -|     and the clock jumps from end to end
//
// A copy between device and disk passes through the host in small pieces, on both links at once. It
// takes as long as the slower link, not the sum. If another copy crosses the device's link in the
// same direction, the disk copy gets half of that link, or less if the disk is slower; the other
// copy gets the rest. So a link never carries more than its rate:
//
//   device ======== host -------- disk       link rates 10 and 4: alone 10 to the host or 4 to the
//                                            disk; both at once 6 and 4
//
// Copies slow ops by the share of time for which they use a link. A copy to the disk uses the
// device's link only a part of its time.
//
// A copy to the disk in a code goes in pieces: two threads encode and write in turns. It takes the
// time of the lower link, or half of the time for coding plus link, whichever is longer. To the
// host one thread codes, and there is no lower link. If the device codes, its link carries the
// code, and both times add up. Coding threads slow ops by the share of time for which they code.
//
// If an action's speed changes, the share that is done stays done. The caller decides which action
// starts when.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"

namespace fitstep {

enum class Direction { Evict, Prefetch };

// A copy crosses all links from `upper` to `lower`; by default none.
struct Route {
  TierId upper;
  TierId lower;
  Direction direction = Direction::Evict;

  bool crosses(const Link& link) const { return upper <= link.upper && link.upper < lower; }
};

// An op that takes `own_ps`, or a copy that takes `own_ps` beside its transfer.
struct Work {
  bool is_copy = false;
  int64_t own_ps = 0;
  int64_t size_bytes = 0;
  Route route;
  // A copy in a code: bytes on links below the first; time of one thread that codes.
  int64_t coded_bytes = -1;  // -1: no code.
  int64_t code_ps = 0;
  int32_t coders = 2;               // Threads that code in turns.
  bool is_coded_on_device = false;  // The first link carries coded bytes too.
  double code_slowdown = 1.0;       // Of ops while a thread codes.
};

// Time of one copy over one link; `is_shared` while the other direction is busy too.
int64_t transfer_ps(int64_t size_bytes, const Rate& rate, bool is_shared);

// Time of one copy between the device and a lower tier while no other copy runs.
int64_t copy_alone_ps(const Machine& machine, TierId lower, Direction direction,
                      int64_t size_bytes);

class LaneClock {
 public:
  explicit LaneClock(const Machine& machine) : machine_(&machine) {}

  int64_t now_ps() const { return now_ps_; }
  bool is_busy(Lane lane) const { return running_[static_cast<size_t>(lane)].is_running; }

  // REQUIRES: the lane is not busy.
  void start(Lane lane, const Work& work);

  // Moves the clock to the next end of an action; several may end at once. Returns false, and does
  // nothing, if no lane is busy.
  bool advance();

 private:
  struct Running {
    bool is_running = false;
    Work work;
    int64_t duration_ps = 0;   // Of the whole action at its present speed.
    int64_t remaining_ps = 0;  // At that speed.
  };

  void adapt_speeds();
  int64_t duration_now_ps(size_t lane) const;
  int64_t copy_ps(size_t lane) const;
  int64_t coding_ps(size_t lane) const;
  int64_t link_ps(size_t lane, const Link& link) const;
  int64_t alone_ps(size_t lane, const Link& link) const;
  bool is_other_way_busy(size_t lane, const Link& link) const;
  std::optional<size_t> lane_beside(size_t lane, const Link& link) const;
  double slowdown_now(size_t lane) const;
  double coding_slowdown_now() const;
  double use_now(size_t lane, const Link& link, Direction direction) const;

  const Machine* machine_;
  int64_t now_ps_ = 0;
  std::array<Running, kLaneCount> running_;
};

}  // namespace fitstep
