// The follower sees every operator that a step function calls while Python runs it.
//
//   Python calls an operator
//     needs only geometry (a view, a size)       the operator runs
//     reads small known integers, 0-dim numbers  the operator runs, on the real bytes
//     asks for a value (.item())                 recorded operators run first, then this one
//     computes                                   the operator is recorded; results are hollow
//
// The follower compares each recorded call with the known segments. If no known segment fits, a new
// segment begins with the calls so far. So no decision of Python is missed.
#pragma once

#include <ATen/core/stack.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/record/at_once.h"
#include "fitstep_torch/record/called.h"
#include "fitstep_torch/record/following.h"
#include "fitstep_torch/record/geometry.h"
#include "fitstep_torch/record/guesses.h"
#include "fitstep_torch/record/met_storages.h"
#include "fitstep_torch/record/saved_writes.h"
#include "fitstep_torch/record/segment.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

class Follower {
 public:
  using Known = std::vector<std::shared_ptr<Segment>>;

  Follower(const Profile& profile, Following& python) : python_(python), geometries_(profile) {}
  ~Follower() { stop(); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // The free part of the arena, and which addresses are homes. Both change when homes grow.
  struct Where {
    TorchDevice* device = nullptr;
    std::span<char> room;
    std::function<bool(const void*)> is_home;
  };

  // Operators that this thread calls go to handle() from now on.
  enum class Mode : uint8_t { Preview, Call, Audit };
  void start(Known known, Mode mode, bool may_add, Where where);  // May add segments?
  void stop();
  void set_where(Where where);

  // Handles one operator that Python calls. Takes arguments from the stack, leaves results there.
  void handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

  EndedSegment end_segment();  // And begins the next.

  // Segments to compare with, from the next segment on: one more; only these.
  void add_known(std::shared_ptr<Segment> segment) { known_.push_back(std::move(segment)); }
  void set_known(Known known);
  void set_region(int32_t region) { region_ = region; }
  void undo_writes() { saved_.undo(); }  // By operators that ran at once.
  void forget_writes() { saved_.forget(); }

  bool is_readable(const at::Tensor& tensor) const;   // Its bytes are plain PyTorch's bytes.
  bool is_untouched(const at::Tensor& tensor) const;  // No recorded operator uses it.

  std::vector<at::Tensor> guesses() const { return guesses_.alive(); }
  void note_guess(const std::string& asking);  // Raises an error after too many.

  int64_t recorded() const { return recorded_; }
  int64_t ran() const { return ran_; }

 private:
  enum class Bytes : uint8_t { Known, Readable, Hollow };

  // Each returns whether it has handled the operator (handle.cpp).
  bool handle_by_kind(const Called& called);
  bool handle_by_memory(const Called& called);
  bool handle_at_once(const Called& called);
  void handle_computing(const Called& called);

  bool is_pending(const c10::StorageImpl* storage) const;
  bool refuses_strangers(const Called& called);
  void watch(int32_t number, const at::Tensor& tensor);
  bool writes_lent(const std::vector<std::pair<size_t, at::Tensor>>& lent);
  at::Tensor overwritten() const;
  void part_from_refilled(const std::vector<std::pair<size_t, at::Tensor>>& lent);
  bool meets_twin(const torch::jit::Stack& stack, size_t count);
  std::vector<int32_t> twins_of(const at::Tensor& one) const;
  bool has_guess(const Called& called) const;
  Bytes bytes_of(const Called& called) const;
  using Foreseen = std::optional<std::vector<Value>>;
  Foreseen foresee(const Called& called);
  bool may_run(const Called& called);
  bool picks_from_lent(const Called& called);
  void run(const Called& called);
  void resize(const Called& called);
  void run_and_note(const Called& called);
  void save_written(const at::Tensor& tensor);
  void ask(const Called& called);
  void make_up(const Called& called);
  void dynamic(const Called& called);
  void between(const Called& called);

  // Follows a known segment.
  bool match(const Called& called);
  bool match_with(const Segment& segment, const Called& called);
  bool is_same(const Segment& segment, const Value& expected, int32_t argument,
               const c10::IValue& now);
  bool is_same_tensor(const Segment& segment, const NumberPlace& place,
                      const std::optional<TensorRef>& expected, const at::Tensor& now);
  std::optional<std::vector<ChangedNumber>> changed_against(const Segment& other) const;
  void trim(size_t count);
  void give_matched(const TorchCall& call, const OperatorFacts& facts, torch::jit::Stack* stack);
  void leave_known();
  void go_on_otherwise(const Called& called);
  bool take_other(size_t calls, const std::function<bool(const Segment&)>& fits);
  std::vector<std::pair<int32_t, at::Tensor>> survivors() const;

  // Ends a segment.
  void decide_on_segment();
  void note_met(EndedSegment& ended);
  std::shared_ptr<Segment> finish_new();

  // Records a new segment.
  void record(const Called& called);
  TorchCall call_of(const Called& called);
  Value value_of(const c10::IValue& value);
  TensorRef reference(const at::Tensor& tensor);
  int32_t number_of(const at::Tensor& tensor, bool is_home = false);
  int32_t add_external(const at::Tensor& tensor, bool is_home);
  void give_recorded(TorchCall& call, const OperatorFacts& facts, torch::jit::Stack* stack);
  void note_made(TensorRef& ref, c10::Device device);
  at::Tensor make_result(const TensorRef& ref, int64_t size_bytes, c10::Device device);
  c10::Device whole(c10::Device device) const;
  c10::Device device_of(const torch::jit::Stack& stack) const;
  size_t generator_number(const at::Generator& generator);
  at::Generator generator_of(const Called& called) const;
  bool was_seeded(const at::Generator& generator);
  void put_generators_back();

  // In an audit.
  void run_audited(const TorchCall& call, const Called& called);
  void keep_starts(const TorchCall& call, const torch::jit::Stack& stack);
  void match_audited(const TorchCall& call, const Called& called);
  void check_not_resized(const TorchCall& call, const torch::jit::Stack& stack);
  at::Tensor apart(const at::Tensor& made, const std::vector<at::Tensor>& others) const;
  void take_result(const c10::OperatorHandle& op, const std::optional<TensorRef>& expected,
                   const at::Tensor& made);
  void take_results(const c10::OperatorHandle& op, const std::vector<Value>& expected,
                    const OperatorFacts& facts, const torch::jit::Stack& stack);
  void note_storage(const at::Tensor& made, int64_t size_bytes, c10::Device device);
  void note_written(const TorchCall& call, const torch::jit::Stack& stack);
  void sweep_dead();
  void reset();

  Following& python_;
  Geometries geometries_;
  Known known_;
  Mode mode_ = Mode::Call;
  Where where_;
  bool is_listening_ = false, may_add_ = true;
  int32_t region_ = -1;
  int64_t recorded_ = 0, ran_ = 0, guessed_ = 0;
  Guesses guesses_;
  AtOnce at_once_;

  // This segment.
  std::shared_ptr<Segment> followed_;  // Null while a new one is recorded.
  size_t position_ = 0;                // Calls so far.
  bool is_strict_ = true;              // Homes must be the recorded homes.
  std::vector<ChangedNumber> changed_;
  Segment fresh_;
  MetStorages met_;
  std::vector<at::Tensor> lent_writes_;  // Written by the last call, and shared with numpy.
  // Shared with numpy, but at home, so not copied: hashes of bytes; none if they have changed.
  std::map<std::tuple<int32_t, int64_t, int64_t>, std::optional<uint64_t>> watched_;
  bool has_lent_ = false, is_sized_by_data_ = false, is_trial_ = false, has_raised_ = false;
  std::vector<int32_t> alive_;

  std::vector<at::Generator> generators_;  // Python's arguments.
  std::vector<Drawn> drawn_;               // Generators drawn from.
  std::map<int32_t, PartCopy> starts_;     // By number: bytes before the first write.

  Refilled refilled_;
  SavedWrites saved_;
};

}  // namespace fitstep::torch_side
