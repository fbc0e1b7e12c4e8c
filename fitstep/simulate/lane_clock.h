// The clock of the lanes: how long each takes for what it runs, beside what else runs.
//
//   compute   |--- op ---------|              a copy slows ops down,
//   evict         |--- copy ---|-----|        two directions of one link share it,
//   prefetch                   |- copy -|     and time moves on from end to end
//
// A copy between device and disk passes through the host in small pieces, on both links at the same
// time: it takes as long as the slower of its links, not the sum of both. Beside a copy between
// device and host in its direction it has half of the link that both cross, or less where the other
// link holds it up; the other copy has the rest. So a link never carries more than its rate:
//
//   device ======== host -------- disk       link rates 10 and 4: alone 10 to the host or 4 to the
//                                            disk; both at once 6 and 4
//
// Ops beside copies are slower as far as those use a link: a copy to the disk has the host's link
// for a part of its time only.
//
// A copy in a code goes in pieces that two threads encode and hand to the lower link in turns: it
// takes as long as that link alone, or half of what coding and that link take after each other. To
// the host one thread codes, and there is no lower link; or the device does, its link carries
// the code, and both times add up. Ops beside it are slower as far as its threads code.
//
// An action whose speed changes keeps the share of it that is done. Who may start, and when, is
// the caller's question.
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

// The links from `upper` to `lower`, all of which a copy crosses; none by default.
struct Route {
  TierId upper;
  TierId lower;
  Direction direction = Direction::Evict;

  bool crosses(const Link& link) const { return upper <= link.upper && link.upper < lower; }
};

// What an action has to do: an op of `own_ps`, or a copy, whose `own_ps` comes on top.
struct Work {
  bool is_copy = false;
  int64_t own_ps = 0;
  int64_t size_bytes = 0;
  Route route;
  // Of a copy in a code: bytes on links below the first, and the time of one thread that codes.
  int64_t coded_bytes = -1;  // None: there is no code.
  int64_t code_ps = 0;
  int32_t coders = 2;               // Threads that code, in turns.
  bool is_coded_on_device = false;  // The first link has these bytes too.
  double code_slowdown = 1.0;       // Of ops while one thread codes without a pause.
};

// Time of one copy over one link; `is_shared` while the other direction is busy too.
int64_t transfer_ps(int64_t size_bytes, const Rate& rate, bool is_shared);

// Time of one copy between the device and a tier below, with nothing else on its way.
int64_t copy_alone_ps(const Machine& machine, TierId lower, Direction direction,
                      int64_t size_bytes);

class LaneClock {
 public:
  explicit LaneClock(const Machine& machine) : machine_(&machine) {}

  int64_t now_ps() const { return now_ps_; }
  bool is_busy(Lane lane) const { return running_[static_cast<size_t>(lane)].is_running; }

  // REQUIRES: the lane is not busy.
  void start(Lane lane, const Work& work);

  // Moves on to the first end. False, and nothing happens, if no lane is busy. Whoever is not busy
  // any more afterwards has ended; several may.
  bool advance();

 private:
  struct Running {
    bool is_running = false;
    Work work;
    int64_t duration_ps = 0;   // Of the whole action, at the speed that it has now.
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
