// A large plan is verified in a moment: 10,000 ops and as many copies on three lanes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

constexpr int32_t kLayers = 5000;

// f_i makes a_i of a_(i-1), b_i makes g_i of g_(i+1) and a_i; 64 bytes each. Storages: the input,
// the a_i, the g_i from the last layer down, the output.
Program long_pyramid() {
  Program program;
  const auto add = [&](StorageKind kind) {
    program.storages.push_back({.size_bytes = 64, .kind = kind});
  };
  add(StorageKind::Input);
  program.storages[0].has_content_at_start = true;
  for (int32_t i = 0; i < 2 * kLayers; ++i) add(StorageKind::Temporary);
  for (int32_t i = 0; i < kLayers; ++i) {
    Form form{.reads = {{StorageId(i), i == 0 ? 0 : 1}}, .writes = {{StorageId(i + 1), 1}}};
    program.ops.push_back({.name = "f", .forms = {form}});
  }
  for (int32_t i = 0; i < kLayers; ++i) {
    Form form{.reads = {{StorageId(kLayers - i), 1}}, .writes = {{StorageId(kLayers + 1 + i), 1}}};
    if (i > 0) form.reads.push_back({StorageId(kLayers + i), 1});
    program.ops.push_back({.name = "b", .forms = {form}});
  }
  return program;
}

// Residency i is storage i. Every a_i goes to the host behind f_(i+1), and comes back to other
// bytes in front of its b_i, which comes as the prefetch two layers ahead allows:
//
//   device   a_i at [64 (i % 3), ...), g at two places by turns, a_i again at two by turns
class OffloadAll {
 public:
  OffloadAll() {
    for (size_t i = 0; i < program_.storages.size(); ++i) {
      plan_.residencies.push_back({.storage = StorageId(i), .size_bytes = 64});
    }
    plan_.residencies[0].tier = kExternalTier;
    for (int32_t layer = 1; layer <= kLayers; ++layer) add_forward(layer);
    for (int32_t layer = kLayers; layer >= 1; --layer) add_backward(layer);
    plan_.program_hash = hash_program(program_);
    plan_.certificate.height_bytes = 64 * int64_t{7};
    plan_.certificate.capacity_bytes = plan_.certificate.height_bytes;
    // Going up: the a_i that is read, the one that is made, and one that may still be on its way
    // out. Coming down: two g, the a_i that is read, and the next one on its way in, which is more.
    plan_.certificate.peak_bytes = 64 * int64_t{4};
  }

  const Program& program() const { return program_; }
  const Plan& plan() const { return plan_; }

 private:
  static ActionRef compute(int32_t position) { return {Lane::Compute, position}; }

  // f_layer has the bytes of a_(layer - 3), so it waits for that eviction.
  void add_forward(int32_t layer) {
    plan_.residencies[static_cast<size_t>(layer)].offset_bytes = int64_t{64} * (layer % 3);
    Action run{.run = {.op = OpId(layer - 1),
                       .reads = {ResidencyId(layer - 1)},
                       .writes = {ResidencyId(layer)}}};
    if (layer > 3) run.waits = {{Lane::Evict, layer - 4}};
    plan_.lane(Lane::Compute).push_back(run);
    plan_.residencies.push_back({.storage = StorageId(layer),
                                 .tier = TierId(1),
                                 .offset_bytes = int64_t{64} * layer,
                                 .size_bytes = 64});
    const int32_t reader = layer < kLayers ? layer : layer - 1;  // The last op that reads it here.
    plan_.lane(Lane::Evict)
        .push_back({.kind = Action::Kind::Copy,
                    .copy = {ResidencyId(layer), ResidencyId(2 * kLayers + layer)},
                    .waits = {compute(reader)},
                    .releases = {ResidencyId(layer)}});
  }

  void add_backward(int32_t layer) {
    const int32_t index = kLayers - layer;  // Of the backward op.
    const ResidencyId host(2 * kLayers + layer);
    const ResidencyId back(plan_.residencies.size());
    plan_.residencies.push_back({.storage = StorageId(layer),
                                 .offset_bytes = 64 * int64_t{5 + index % 2},
                                 .size_bytes = 64});
    Action prefetch{.kind = Action::Kind::Copy,
                    .copy = {host, back},
                    .waits = {{Lane::Evict, layer - 1}},
                    .releases = {host}};
    if (index >= 2) prefetch.waits.push_back(compute(kLayers + index - 2));
    plan_.lane(Lane::Prefetch).push_back(prefetch);
    const ResidencyId gradient(kLayers + 1 + index);
    plan_.residencies[gradient.index()].offset_bytes = 64 * int64_t{3 + index % 2};
    Action run{.run = {.op = OpId(kLayers + index), .reads = {back}, .writes = {gradient}},
               .waits = {{Lane::Prefetch, index}},
               .releases = {back}};
    if (index > 0) {
      run.run.reads.push_back(ResidencyId(kLayers + index));
      run.releases.push_back(ResidencyId(kLayers + index));
    }
    if (layer == 1) run.releases.push_back(gradient);
    plan_.lane(Lane::Compute).push_back(run);
  }

  Program program_ = long_pyramid();
  Plan plan_;
};

TEST(VerifyScale, TakesAMomentForTenThousandOpsAndCopies) {
  const OffloadAll offload;
  const Limits limits{.capacity_bytes = {64 * int64_t{7}, int64_t{64} * (kLayers + 1)}};
  const auto begin = std::chrono::steady_clock::now();
  expect_valid(offload.program(), offload.plan(), limits);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("verified 10,000 ops and 10,000 copies in {:.3f} s\n", taken.count());
  EXPECT_LT(taken.count(), 1.0);
}

}  // namespace
}  // namespace fitstep
