// The table of operator rules: what is known of an operator beyond its schema.
//
// A rule is a claim. The profile tests it on every signature it meets; where bits differ the claim
// is refuted for that signature, lowering leaves it out, and the report says so.
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
  std::vector<std::string> sign_only;       // Arguments of which one bit per element would do.
  std::vector<std::string> bounded;         // Arguments that a narrower integer could hold.
  std::vector<std::string> hidden_writes;   // Arguments written though the schema does not say so.
  std::vector<std::string> optional_state;  // Arguments that a pure form leaves out (None).
  std::vector<std::string> may_overwrite;   // Arguments where the result may lie, if it is alike.
  std::string only_if;  // A bool argument that must be true for the rule to hold; empty: always.
  std::vector<size_t> undefined_results;  // Results whose bytes may be whatever was there.
  bool takes_probabilities = false;       // Kernels refuse floating-point inputs outside 0 to 1.
  bool overwrites = false;                // The written argument's old bytes are not read.
  bool is_undefined = false;              // The results' bytes are whatever was there.
};

// The rule of an operator; one without a row has the default rule.
const OpRule& rule_of(const c10::OperatorHandle& handle);

// Index of the argument of that name; -1 if the schema has none.
int32_t argument_index(const c10::OperatorHandle& handle, const std::string& name);

// Whether `rule` holds for this call at all (see only_if).
bool applies(const OpRule& rule, const TorchCall& call);

// Arguments whose bytes this call never reads, by index. For a convolution's backward that depends
// on which gradients it makes.
std::vector<size_t> shape_only_arguments(const TorchCall& call);

// The call of our own operator that makes the same bits in less time; none for most.
std::optional<TorchCall> faster(const TorchCall& call);

// Whether the call draws random numbers, by its schema's tag.
bool draws_random_numbers(const c10::OperatorHandle& handle);

// Whether an operator of ours has a kernel for tensors of that device. On the CPU all have.
bool has_kernel(const c10::OperatorHandle& handle, c10::Device device);

// Whether the call gives a tensor other memory (set_, resize_), which no plan can follow.
bool changes_memory(const c10::OperatorHandle& handle);

// Whether argument `index` is written, by schema or rule.
bool is_written(const TorchCall& call, size_t index);

// Whether a program can take from each run where the call's tensors in that storage begin there:
// not where it writes what it has another tensor over.
bool may_move(const TorchCall& call, int32_t storage);

// Floating-point operations of products of matrices, convolutions, fused attention and fused
// recurrent layers, a multiplication and an addition each; 0 for ops that only move bytes.
int64_t flops_of(const TorchCall& call);

// Bytes that the kernel moves at least: what it reads and what it writes, each once.
int64_t bytes_of(const TorchCall& call);

// The names of claims.
inline constexpr const char* kSplitClaim = "split";
inline constexpr const char* kPureClaim = "pure";
inline constexpr const char* kDrawsClaim = "draws";
inline constexpr const char* kFasterClaim = "faster";    // Our operator has the same bits.
inline constexpr const char* kPackedClaim = "packed";    // A form that reads a code has them too.
inline constexpr const char* kRepeatsClaim = "repeats";  // Its own bits, from run to run.
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

  // Refutes a claim whose test has failed itself, and keeps for the report how.
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
