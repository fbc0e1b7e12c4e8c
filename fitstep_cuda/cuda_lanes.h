// The copy lanes of one plan on a GPU.
//
//   host thread    begin   op op ended op ended op wait ...        queues work in streams
//   compute        [start] f0 (1)  f1 (2)   ....... (evict 1) b1
//   evict          (start) .. (compute 1) [ a0 ] (evict 1)
//
// A copy is queued as soon as all its waits are queued; then events in the streams keep the order.
// `queued_` counts by lane. A write to the disk counts only when the lane's thread has seen the
// bytes in the file, so only waiters for the file sleep.
#pragma once

#include <pthread.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/file_copies.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/link_copies.h"

namespace fitstep::cuda {

class CudaDevice;

class CudaLanes final : public CopyLanes {
 public:
  // REQUIRES: the device's file has room for the copies.
  static Result<std::unique_ptr<CopyLanes>> make(std::shared_ptr<CudaDevice> device,
                                                 LaneCopies copies);
  ~CudaLanes() override;

  Status begin() override;
  void compute_ended() override;
  bool wait(Mark mark) override;
  void stop() override;
  std::optional<LaneFailure> drain() override;
  void sample_codes() override {
    over_link_.begin_samples();
    if (to_file_ != nullptr) to_file_->samples().begin();
  }
  std::vector<CopySize> copy_sizes(Lane lane) const override {
    if (lane == Lane::Evict) return over_link_.sizes();
    const bool is_to_file = lane == Lane::DiskWrite && to_file_ != nullptr;
    return is_to_file ? to_file_->sizes() : std::vector<CopySize>();
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct DiskLane {
    Lane lane = Lane::DiskWrite;
    CudaLanes* lanes = nullptr;
    char* staging = nullptr;
    Event staged = nullptr;  // The last copy to or from `staging` has ended.
    pthread_t thread = {};
    bool is_started = false;
    bool has_step = false;
  };

  CudaLanes(std::shared_ptr<CudaDevice> device, LaneCopies copies);

  Status prepare();
  Status make_events();
  Status make_op_event(Mark mark);
  Status start_thread(DiskLane& disk);
  Status start_streams();

  static void* run_thread(void* disk);
  void serve(DiskLane& disk);
  void run_step(Lock& lock, DiskLane& disk);
  Status write_file(DiskLane& disk, int32_t position);
  Status read_file(DiskLane& disk, int32_t position);

  bool is_queued(Mark mark) const { return queued_of(mark.lane) >= mark.count; }
  bool are_queued(const std::vector<Mark>& marks) const;
  bool is_at_end() const;
  Status finish(Lane lane);
  Status join(Lane lane);
  void queue_copies();
  bool queue_next(Lane lane);
  Status queue_waits(Lane lane, const std::vector<Mark>& waits);
  Status queue_copy(Lane lane, int32_t position);
  void fail(Lane lane, int32_t position, const Error& error);

  int32_t& queued_of(Lane lane) { return queued_.at(static_cast<size_t>(lane)); }
  int32_t queued_of(Lane lane) const { return queued_.at(static_cast<size_t>(lane)); }
  const std::vector<LaneCopy>& copies_of(Lane lane) const { return copies_.of(lane); }
  // Null if no stream waits for the mark, or if the lane writes to the file.
  Event event_of(Mark mark) const;

  std::shared_ptr<CudaDevice> device_;
  LaneCopies copies_;
  LinkCopies over_link_;
  std::unique_ptr<FileCopies> to_file_;                // Null: no copies to the file.
  std::array<std::vector<Event>, kLaneCount> events_;  // By lane and position.
  Event start_ = nullptr;                              // The step before has ended.
  std::array<DiskLane, 2> disk_;

  std::mutex mutex_;  // Guards the members below, and the order of queueing.
  std::condition_variable changed_;
  std::array<int32_t, kLaneCount> queued_{};
  std::optional<LaneFailure> failure_;  // The first of the step.
  bool is_stopped_ = false;
  bool is_closing_ = false;
};

}  // namespace fitstep::cuda
