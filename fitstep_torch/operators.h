// Operators: what is known of each before it is called.
//
//   schema, dispatcher --> facts: a view, a question, a draw, sized by data, written arguments
//   name               --> rules: geometry alone is read, nothing is read first, may be split
//
// Facts decide what a follower does with a call. Rules are claims, which the profile tests by bits.
// An operator that is not PyTorch's own has no rules: it runs between segments, unless it is known
// to be pure.
#pragma once

#include "fitstep_torch/operators/op_rules.h"             // IWYU pragma: export
#include "fitstep_torch/operators/operator_facts.h"       // IWYU pragma: export
#include "fitstep_torch/operators/operators_of_others.h"  // IWYU pragma: export
