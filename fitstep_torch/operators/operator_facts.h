// What following a step needs to know of an operator, from its schema and its tags.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

struct OperatorFacts {
  enum class Kind : uint8_t {
    Compute,    // Makes or writes bytes: recorded.
    View,       // Gives another tensor over an argument's storage: run, as it touches no bytes.
    Composite,  // Made of other operators: run, so that those are seen.
    Ask,        // Answers with a value out of a tensor: needs its bytes now.
    Dynamic,    // The shape of the result depends on bytes.
    Query,      // Answers from geometry alone: run.
    Collective  // Talks to other processes.
  };

  Kind kind = Kind::Compute;
  bool is_random = false;
  bool makes_by_sizes = false;       // A result's size may come from numbers among the arguments.
  bool is_for_each = false;          // Called with lists, it calls an operator for each entry.
  bool numbers_are_sizes = false;    // So it is for numbers that are no integers, too (arange).
  bool writes_unsaid = false;        // Some argument that its schema does not say it writes.
  std::vector<size_t> written;       // Arguments.
  std::vector<size_t> optional;      // Arguments: lists of tensors, where some may be left out.
  int32_t dropout = -1;              // Argument: where that is 0, nothing is drawn.
  std::vector<int32_t> argument_of;  // By result: the written argument that it is; -1: a new one.
};

// Whether a call, with its arguments last on the stack, draws random numbers as far as is known.
bool may_draw(const OperatorFacts& facts, const c10::OperatorHandle& op,
              const torch::jit::Stack& stack);

// Looked up once for each operator. Thread-safe.
const OperatorFacts& facts_of(const c10::OperatorHandle& op);

}  // namespace fitstep::torch_side
