// The follower goes with a step function as Python runs it, and sees every operator that it calls.
//
//   Python calls an operator
//     of geometry alone (a view, a size)         it runs
//     of small known integers and 0-dim numbers  it runs, on the real bytes
//     that asks for a value (.item())            what is recorded runs first, then it runs
//     that computes                              it is recorded; its results are hollow
//
// What is recorded is compared with the segments that are known, call by call; where none is like
// it, a new one begins with the calls so far. So nothing that Python decides can be missed.
#pragma once

#include <ATen/core/stack.h>
#include <c10/util/flat_hash_map.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/record/at_once.h"
#include "fitstep_torch/record/following.h"
#include "fitstep_torch/record/geometry.h"
#include "fitstep_torch/record/guesses.h"
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

  // What is free of a device, and which addresses are at home. Both change where homes grow.
  struct Where {
    TorchDevice* device = nullptr;
    std::span<char> room;
    std::function<bool(const void*)> is_home;
  };

  // From now on the operators that this thread calls come here.
  enum class Mode : uint8_t { Preview, Call, Audit };
  void start(Known known, Mode mode, bool may_add, Where where);  // Segments to those known.
  void stop();
  void set_where(Where where);

  // One operator that Python has called. Arguments are on the stack, results will be.
  void handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

  EndedSegment end_segment();  // The next begins.

  // To be followed from the next segment on: one more, or these only.
  void add_known(std::shared_ptr<Segment> segment) { known_.push_back(std::move(segment)); }
  void set_known(Known known);
  void set_region(int32_t region) { region_ = region; }
  void undo_writes() { saved_.undo(); }  // Of operators that ran at once.
  void forget_writes() { saved_.forget(); }

  bool is_readable(const at::Tensor& tensor) const;   // Its bytes are what Python would find.
  bool is_untouched(const at::Tensor& tensor) const;  // Nothing recorded reads or writes it.

  std::vector<at::Tensor> guesses() const { return guesses_.alive(); }
  void note_guess(const std::string& asking);  // Refuses when too much comes of guesses.

  int64_t recorded() const { return recorded_; }
  int64_t ran() const { return ran_; }

 private:
  enum class Bytes : uint8_t { Known, Readable, Hollow };

  bool is_pending(const c10::StorageImpl* storage) const;
  bool refuses_strangers(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  void watch(int32_t number, const at::Tensor& tensor);
  bool writes_lent(const std::vector<std::pair<size_t, at::Tensor>>& lent);
  at::Tensor overwritten() const;
  void part_from_refilled(const std::vector<std::pair<size_t, at::Tensor>>& lent);
  bool meets_twin(const torch::jit::Stack& stack, size_t count);
  std::vector<int32_t> twins_of(const at::Tensor& one) const;
  bool has_guess(const torch::jit::Stack& stack, size_t count) const;
  Bytes bytes_of(const torch::jit::Stack& stack, size_t count) const;
  using Foreseen = std::optional<std::vector<Value>>;
  Foreseen foresee(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  bool may_run(const c10::OperatorHandle& op, const OperatorFacts& facts,
               const torch::jit::Stack& stack);
  bool picks_from_lent(const c10::OperatorHandle& op, const OperatorFacts& facts,
                       const torch::jit::Stack& stack);
  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void resize(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void run_and_note(const c10::OperatorHandle& op, const OperatorFacts& facts,
                    c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void save_written(const at::Tensor& tensor);
  void ask(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void make_up(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void dynamic(const c10::OperatorHandle& op, const OperatorFacts& facts, c10::DispatchKeySet keys,
               torch::jit::Stack* stack);
  void between(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

  // Following a known segment.
  bool match(const c10::OperatorHandle& op, const OperatorFacts& facts, c10::DispatchKeySet keys,
             torch::jit::Stack* stack);
  bool match_with(const Segment& segment, const c10::OperatorHandle& op, const OperatorFacts& facts,
                  const torch::jit::Stack& stack);
  bool is_same(const Segment& segment, const Value& expected, int32_t argument,
               const c10::IValue& now);
  bool is_same_tensor(const Segment& segment, const NumberPlace& place,
                      const std::optional<TensorRef>& expected, const at::Tensor& now);
  std::optional<std::vector<ChangedNumber>> changed_against(const Segment& other) const;
  void trim(size_t count);
  void give_matched(const TorchCall& call, const OperatorFacts& facts, torch::jit::Stack* stack);
  void leave_known();
  void go_on_otherwise(const c10::OperatorHandle& op, const OperatorFacts& facts,
                       c10::DispatchKeySet keys, torch::jit::Stack* stack);
  bool take_other(size_t calls, const std::function<bool(const Segment&)>& fits);
  std::vector<std::pair<int32_t, at::Tensor>> survivors() const;

  // Recording a new one.
  void record(const c10::OperatorHandle& op, const OperatorFacts& facts, c10::DispatchKeySet keys,
              torch::jit::Stack* stack);
  TorchCall call_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
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
  at::Generator generator_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const;
  bool was_seeded(const at::Generator& generator);
  void put_generators_back();

  // Of an audit.
  void run_audited(const TorchCall& call, const OperatorFacts& facts, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack);
  void keep_starts(const TorchCall& call, const torch::jit::Stack& stack);
  void match_audited(const TorchCall& call, const OperatorFacts& facts, c10::DispatchKeySet keys,
                     torch::jit::Stack* stack);
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
  bool is_strict_ = true;              // Tensors must be those that are at home already.
  std::vector<ChangedNumber> changed_;
  Segment fresh_;
  ska::flat_hash_map<const c10::StorageImpl*, int32_t> numbers_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;  // By number.
  std::vector<int64_t> size_bytes_;                                  // By number.
  std::vector<c10::Device> devices_;                                 // By number.
  std::vector<int64_t> met_at_bytes_;                                // By number; -1: made here.
  std::vector<at::Tensor> externals_;                                // By number; else undefined.
  std::vector<std::optional<PartCopy>> held_;  // By number: what was in memory of somebody else.
  std::vector<at::Tensor> lent_writes_;        // What the last call writes of that.
  std::vector<bool> is_written_;               // By number: it waits for that.
  // Lent, not copied: hashes of what was the same at all meetings.
  std::map<std::tuple<int32_t, int64_t, int64_t>, std::optional<uint64_t>> watched_;
  bool has_lent_ = false, is_sized_by_data_ = false, is_trial_ = false, has_raised_ = false;
  std::vector<int32_t> alive_;

  std::vector<at::Generator> generators_;  // That Python gives to operators.
  std::vector<Drawn> drawn_;               // Those that are drawn from.
  std::map<int32_t, PartCopy> starts_;     // By number: what is written, as it was.

  Refilled refilled_;
  SavedWrites saved_;
};

}  // namespace fitstep::torch_side
