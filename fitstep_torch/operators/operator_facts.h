// Facts about an operator that the follower needs, from its schema and tags.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

struct OperatorFacts {
  enum class Kind : uint8_t {
    Compute,    // Makes or writes bytes: recorded.
    View,       // Returns a tensor over an argument's storage: run, as it touches no bytes.
    Composite,  // Calls other operators: run, so that the follower sees those.
    Ask,        // Returns a value read from a tensor (.item()): needs its bytes now.
    Dynamic,    // The shape of the result depends on bytes (nonzero).
    Query,      // Answers from geometry alone (size): run.
    Collective  // Talks to other processes.
  };

  Kind kind = Kind::Compute;
  bool is_random = false;
  bool makes_by_sizes = false;       // Numbers among the arguments may set a result's size.
  bool is_for_each = false;          // _foreach_*: may call an operator for each list entry.
  bool numbers_are_sizes = false;    // Also numbers that are no integers set sizes (arange).
  bool writes_unsaid = false;        // Writes an argument although its schema does not say so.
  std::vector<size_t> written;       // Arguments that it writes.
  std::vector<size_t> optional;      // Arguments that are lists of tensors or None.
  int32_t dropout = -1;              // Argument; if it is 0, the call draws nothing.
  std::vector<int32_t> argument_of;  // By result: the written argument that it is; -1: new.
};

// Whether a call may draw random numbers. Its arguments are the last on the stack.
bool may_draw(const OperatorFacts& facts, const c10::OperatorHandle& op,
              const torch::jit::Stack& stack);

// Cached by operator. Thread-safe.
const OperatorFacts& facts_of(const c10::OperatorHandle& op);

}  // namespace fitstep::torch_side
