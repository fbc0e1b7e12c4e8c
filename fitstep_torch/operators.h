// Operators: what fitstep knows about an operator before it is called.
//
//   schema, dispatcher --> facts: view, asks for a value, random, size depends on data, writes
//   name               --> rules: reads only shapes, overwrites without reading, may split
//
// Facts decide what the follower does with a call. Rules are claims; the profile tests them by
// comparing bits. A custom operator has no rules. It runs between segments, unless the user has
// declared it pure.
#pragma once

#include "fitstep_torch/operators/op_rules.h"             // IWYU pragma: export
#include "fitstep_torch/operators/operator_facts.h"       // IWYU pragma: export
#include "fitstep_torch/operators/operators_of_others.h"  // IWYU pragma: export
