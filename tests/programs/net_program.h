// Programs of well-known nets, op by op as PyTorch runs them, with times from a simple roofline
// model. For tests at real sizes: how far memory falls, how long planning takes.
//
// Weights are at home with momentum or Adam state, gradients live until the updates at the end,
// dropout draws from a generator, batch norm has running statistics and a pure form without them.
#pragma once

#include <cstdint>

#include "fitstep/program/program.h"

namespace fitstep {

struct GptOptions {
  int64_t layers = 12;
  int64_t batch = 8;
  int64_t tokens = 512;
  int64_t width = 512;
  int64_t vocabulary = 256;
};
Program gpt_program(const GptOptions& options);

struct ResnetOptions {
  int64_t batch = 32;
  int64_t pixels = 224;
};
Program resnet50_program(const ResnetOptions& options);

}  // namespace fitstep
