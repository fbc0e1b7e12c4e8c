#include "tests/fakes/mock_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/check.h"
#include "fitstep/base/hash.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {
namespace {

class MockLanes final : public CopyLanes {
 public:
  MockLanes(MockDevice& device, LaneCopies copies) : device_(device), copies_(std::move(copies)) {}

  Status begin() override {
    if (!device_.begin_step()) return Error{ErrorCode::Device, "another step is running"};
    for (CopyLane& lane : lanes_) lane = CopyLane{};
    ended_ = {};
    now_ = 0;
    is_stopped_ = false;
    failure_.reset();
    look_ahead();
    return Done{};
  }

  void compute_ended() override {
    now_ += device_.ticks(Lane::Compute, compute_count());
    ended_[0].push_back(now_);
    look_ahead();
  }

  bool wait(Mark mark) override {
    const std::vector<int64_t>& ended = ended_[static_cast<size_t>(mark.lane)];
    while (!is_stopped_ && std::cmp_less(ended.size(), mark.count)) {
      if (!advance(kNever)) fail(mark.lane, "lanes wait for each other");
    }
    if (is_stopped_) return false;
    if (mark.count > 0) now_ = std::max(now_, ended[static_cast<size_t>(mark.count) - 1]);
    look_ahead();
    return true;
  }

  void stop() override { is_stopped_ = true; }

  std::optional<LaneFailure> drain() override {
    while (advance(kNever)) {
    }
    for (const Lane lane : kCopyLanes) {
      const bool is_at_end = of(lane).position == copies_.of(lane).size();
      if (!is_at_end && !is_stopped_) fail(lane, "waits for what never ends");
    }
    for (const CopyLane& lane : lanes_) now_ = std::max(now_, lane.end);
    device_.end_step(now_);
    return failure_;
  }

 private:
  static constexpr int64_t kNever = int64_t{1} << 60;

  struct CopyLane {
    size_t position = 0;
    bool is_copying = false;
    int64_t end = 0;          // Of the copy in flight, or of the last one.
    std::vector<char> found;  // In the source, at the begin.
  };

  CopyLane& of(Lane lane) { return lanes_[static_cast<size_t>(lane)]; }
  const CopyLane& of(Lane lane) const { return lanes_[static_cast<size_t>(lane)]; }
  int32_t compute_count() const { return static_cast<int32_t>(ended_[0].size()); }

  void fail(Lane lane, const char* what) {
    if (!failure_.has_value()) {
      failure_ = LaneFailure{.lane = lane,
                             .position = static_cast<int32_t>(of(lane).position),
                             .error = {ErrorCode::Device, what}};
    }
    is_stopped_ = true;
  }

  // The next op takes effect at its begin or at its end, by dice: what falls in between comes
  // before it, or after.
  void look_ahead() {
    const int64_t ticks = device_.ticks(Lane::Compute, compute_count());
    const int64_t until = now_ + (ticks % 2 == 0 ? 0 : ticks);
    while (advance(until)) {
    }
  }

  // When the lane does something next; kNever if that is not known yet.
  int64_t next(Lane lane) const {
    const CopyLane& mine = of(lane);
    if (mine.is_copying) return mine.end;
    if (is_stopped_ || mine.position == copies_.of(lane).size()) return kNever;
    int64_t begin = mine.end;
    for (const Mark& mark : copies_.of(lane)[mine.position].waits) {
      const std::vector<int64_t>& ended = ended_[static_cast<size_t>(mark.lane)];
      if (std::cmp_less(ended.size(), mark.count)) return kNever;
      if (mark.count > 0) begin = std::max(begin, ended[static_cast<size_t>(mark.count) - 1]);
    }
    return begin;
  }

  // Lets the earliest begin or end of a copy happen that is not after `until`; false if none is.
  bool advance(int64_t until) {
    const Lane first = *std::ranges::min_element(kCopyLanes, {}, [&](Lane it) { return next(it); });
    const int64_t when = next(first);
    if (when == kNever || when > until) return false;
    if (of(first).is_copying) {
      end(first);
    } else {
      begin(first, when);
    }
    return true;
  }

  void begin(Lane lane, int64_t when) {
    CopyLane& mine = of(lane);
    const LaneCopy& copy = copies_.of(lane)[mine.position];
    mine.is_copying = true;
    mine.end = when + device_.ticks(lane, static_cast<int32_t>(mine.position));
    const char* source = source_of(lane, copy);
    mine.found.assign(source, source + copy.size_bytes);
    std::fill_n(target_of(lane, copy), copy.size_bytes, kRubbish);
  }

  void end(Lane lane) {
    CopyLane& mine = of(lane);
    const LaneCopy& copy = copies_.of(lane)[mine.position];
    mine.is_copying = false;
    if (const Status status = device_.end_copy(); !status) {
      fail(lane, status.error().message.c_str());
      return;
    }
    const char* source = source_of(lane, copy);
    for (size_t i = 0; i < mine.found.size(); ++i) {
      if (source[i] != mine.found[i]) mine.found[i] = kRubbish;
    }
    if (!bring(lane, copy, mine.found)) {
      fail(lane, "what is below cannot be decoded");
      return;
    }
    ++mine.position;
    ended_[static_cast<size_t>(lane)].push_back(mine.end);
  }

  // Of a copy in a code, those that it has below; as they are, where the code needs more.
  int64_t& coded_bytes(Lane lane, const LaneCopy& copy) {
    return coded_bytes_[{is_disk_lane(lane), copy.residency_below}];
  }

  // False for what is no code.
  bool bring(Lane lane, const LaneCopy& copy, std::span<const char> found) {
    const std::span<char> target(target_of(lane, copy), found.size());
    if (copy.code != Code::None) {
      int64_t& bytes = coded_bytes(lane, copy);
      if (lane == Lane::Evict || lane == Lane::DiskWrite) {
        bytes = coder_.encode(copy.code, found, target);
        if (bytes >= 0) device_.note_coded();
        if (bytes >= 0) return true;
      } else if (bytes >= 0) {
        return coder_.decode(copy.code, found.first(static_cast<size_t>(bytes)), target);
      }
    }
    std::ranges::copy(found, target.begin());
    return true;
  }

  const char* source_of(Lane lane, const LaneCopy& copy) const {
    return lane == Lane::DiskRead ? device_.file() + copy.file_offset_bytes : copy.source;
  }
  char* target_of(Lane lane, const LaneCopy& copy) const {
    return lane == Lane::DiskWrite ? device_.file() + copy.file_offset_bytes : copy.target;
  }

  MockDevice& device_;
  LaneCopies copies_;
  std::array<CopyLane, kLaneCount> lanes_;
  std::array<std::vector<int64_t>, kLaneCount> ended_;  // By lane and position: when.
  int64_t now_ = 0;                                     // On the compute lane.
  bool is_stopped_ = false;
  std::optional<LaneFailure> failure_;
  Coder coder_;
  std::map<std::pair<bool, int32_t>, int64_t> coded_bytes_;  // By tier and residency below.
};

}  // namespace

MockDevice::~MockDevice() {
  FITSTEP_CHECK(reserved_.empty(), "memory of the device is still reserved");
}

Result<char*> MockDevice::reserve(TierId /*tier*/, int64_t size_bytes) {
  constexpr int64_t kMostBytes = int64_t{1} << 32;
  const bool fails = reserves_++ == options_.failing_reserve;
  if (fails || size_bytes > kMostBytes) {
    return Error{ErrorCode::Device, fmt::format("cannot reserve {} bytes of memory", size_bytes)};
  }
  void* base =
      std::aligned_alloc(kPageBytes, static_cast<size_t>(align_up(size_bytes, kPageBytes)));
  FITSTEP_CHECK(base != nullptr, "no memory for the test");
  auto* begin = static_cast<char*>(base);
  std::fill_n(begin, align_up(size_bytes, kPageBytes), kRubbish);
  reserved_.emplace(begin, size_bytes);
  return begin;
}

void MockDevice::release(char* base, int64_t size_bytes) {
  const auto found = reserved_.find(base);
  FITSTEP_CHECK(found != reserved_.end() && found->second == size_bytes,
                "a release of what was not reserved");
  reserved_.erase(found);
  std::free(base);
}

void MockDevice::discard(char* begin, int64_t size_bytes) {
  const auto into_page =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % uintptr_t{kPageBytes});
  const int64_t head_bytes = (kPageBytes - into_page) % kPageBytes;
  const int64_t whole_bytes = (size_bytes - head_bytes) / kPageBytes * kPageBytes;
  if (whole_bytes > 0) std::fill_n(begin + head_bytes, whole_bytes, kRubbish);
}

// It has no pages of its own.
void MockDevice::set_in_forks(char* /*begin*/, int64_t /*size_bytes*/, bool /*is_in_forks*/) {}

Result<std::unique_ptr<CopyLanes>> MockDevice::open_lanes(LaneCopies copies) {
  const auto end_bytes = static_cast<size_t>(file_bytes(copies));
  if (end_bytes > file_.size()) file_.resize(end_bytes, kRubbish);
  return std::unique_ptr<CopyLanes>(new MockLanes(*this, std::move(copies)));
}

// Some actions take no time at all, and one in eight takes ten times as long as the others.
int64_t MockDevice::ticks(Lane lane, int32_t position) const {
  if (options_.ticks) return options_.ticks(lane, position);
  Fingerprint dice;
  for (const int64_t part : {static_cast<int64_t>(options_.seed), static_cast<int64_t>(lane),
                             int64_t{position}, int64_t{steps_}}) {
    dice.add(part);
  }
  const uint64_t number = dice.value() >> 8U;  // The low bits of this hash are its worst.
  const auto ticks = static_cast<int64_t>(number % static_cast<uint64_t>(options_.most_ticks + 1));
  return number >> 32U & 7U ? ticks : 10 * ticks;
}

Status MockDevice::end_copy() {
  if (copies_++ == options_.failing_copy) return Error{ErrorCode::Device, "the copy failed"};
  return Done{};
}

void MockDevice::end_step(int64_t now) {
  is_running_ = false;
  step_ticks_ = now;
}

bool MockDevice::begin_step() {
  if (is_running_) return false;
  is_running_ = true;
  ++steps_;
  return true;
}

}  // namespace fitstep
