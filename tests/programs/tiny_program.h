// Seeded programs of a few ops, each with a few units of bytes and whole seconds, for comparing the
// planner with all plans.
//
// What occurs: saved values read in reverse, several outputs and readers, ops in place, outputs in
// the place of an input, scratch, ops that cannot run again, forms of equal bits with other times
// and reads, a weight that is overwritten before the end.
#pragma once

#include <cstdint>

#include "fitstep/program/program.h"

namespace fitstep {

struct TinyProgramOptions {
  int32_t most_ops = 7;
  int32_t most_values = 8;
  int64_t unit_bytes = 1;  // Every size is a multiple of it.
  // Every second op has one or two forms more, which trade time for scratch or read less.
  bool trades_scratch = false;
};

// Always valid; equal seeds and options give equal programs on every platform.
Program tiny_program(uint64_t seed, const TinyProgramOptions& options = {});

}  // namespace fitstep
