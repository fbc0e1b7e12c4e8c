// The table of operator rules: what fitstep knows about an operator beyond its schema.
//
// A rule is a claim. The profile tests it on every signature. If bits differ, the claim is refuted
// for that signature, lowering does not use it there, and the report says so.
//
// To add a rule: one row in op_rules.cpp. The names of arguments are those of the schema.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct OpRule {
  OpKind kind = OpKind::Other;
  std::vector<std::string> shape_only;      // Arguments whose bytes the kernel never reads.
  std::vector<std::string> sign_only;       // Arguments of which one bit per element is enough.
  std::vector<std::string> bounded;         // Indices that a narrower integer could hold.
  std::vector<std::string> hidden_writes;   // Arguments written although the schema denies it.
  std::vector<std::string> optional_state;  // Arguments that are None in a pure form.
  std::vector<std::string> may_overwrite;   // The result may take their address, if sizes agree.
  std::string only_if;  // A bool argument that must be true for the rule to hold; empty: always.
  std::vector<size_t> undefined_results;  // Results with uninitialised bytes.
  bool takes_probabilities = false;       // Other floats are refused, or are slow.
  bool overwrites = false;                // The written argument's old bytes are not read.
  bool is_undefined = false;              // All results have uninitialised bytes.
};

// The rule of an operator. An operator without a row has the default rule.
const OpRule& rule_of(const c10::OperatorHandle& handle);

// Index of the argument of that name; -1 if the schema has none.
int32_t argument_index(const c10::OperatorHandle& handle, const std::string& name);

// Whether `rule` holds for this call (see only_if).
bool applies(const OpRule& rule, const TorchCall& call);

// Indices of arguments whose bytes this call never reads. A convolution's backward reads more or
// less, depending on which gradients it makes.
std::vector<size_t> shape_only_arguments(const TorchCall& call);

// The call of our own operator that makes the same bits faster; none for most calls.
std::optional<TorchCall> faster(const TorchCall& call);

// Whether the call draws random numbers, by its schema's tag.
bool draws_random_numbers(const c10::OperatorHandle& handle);

// Whether one of our operators has a kernel for this device. On the CPU all have one.
bool has_kernel(const c10::OperatorHandle& handle, c10::Device device);

// Whether the call gives a tensor other memory (set_, resize_), which no plan can follow.
bool changes_memory(const c10::OperatorHandle& handle);

// Whether argument `index` is written, by schema or rule.
bool is_written(const TorchCall& call, size_t index);

// Whether the offsets of the call's tensors in this storage may differ from run to run. False if
// the call writes the storage and has more than one tensor there.
bool may_move(const TorchCall& call, int32_t storage);

// Floating-point operations of products of matrices, convolutions, fused attention and fused
// recurrent layers, a multiplication and an addition each; 0 for ops that only move bytes.
int64_t flops_of(const TorchCall& call);

// Fewest bytes that the kernel moves: everything it reads and writes, once.
int64_t bytes_of(const TorchCall& call);

// The names of claims.
inline constexpr const char* kSplitClaim = "split";
inline constexpr const char* kPureClaim = "pure";
inline constexpr const char* kDrawsClaim = "draws";
inline constexpr const char* kFasterClaim = "faster";    // Our operator makes the same bits.
inline constexpr const char* kPackedClaim = "packed";    // So does the form that reads a code.
inline constexpr const char* kRepeatsClaim = "repeats";  // Two runs make the same bits.
std::string shape_only_claim(const TorchCall& call, size_t argument);

// Claims that the profile has refuted, as "signature|claim".
class Claims {
 public:
  bool holds(const std::string& signature, const std::string& claim) const {
    return !refuted_.contains(signature + "|" + claim);
  }
  void refute(const std::string& signature, const std::string& claim) {
    refuted_.insert(signature + "|" + claim);
  }
  const std::set<std::string>& refuted() const { return refuted_; }

  // Refutes a claim that could not be tested; the report shows `why`.
  void leave_out(const std::string& signature, const std::string& claim, const std::string& why) {
    refute(signature, claim);
    left_out_.push_back(claim + ": " + why);
  }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  std::set<std::string> refuted_;
  std::vector<std::string> left_out_;
};

}  // namespace fitstep::torch_side
