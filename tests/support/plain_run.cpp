#include "tests/support/plain_run.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/run/device.h"
#include "fitstep/run/host_device.h"
#include "tests/support/expect_plan.h"
#include "tests/support/hash_step.h"
#include "tests/support/keep_all.h"

namespace fitstep {

std::unique_ptr<HashStep> make_step(const Program& program, const Plan& plan,
                                    std::shared_ptr<Device> device) {
  Result<std::unique_ptr<HashStep>> made = HashStep::make(program, plan, std::move(device));
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(made).value();
}

std::vector<Contents> plain_contents(const Program& program) {
  constexpr int kSteps = 2;
  const Plan plan = keep_all(program);
  const auto step = make_step(program, plan, std::make_shared<HostDevice>());
  std::vector<Contents> after;
  for (int i = 0; i < kSteps; ++i) {
    EXPECT_FALSE(step->step().has_value());
    after.push_back(step->contents());
  }
  return after;
}

bool has_same_bytes(HashStep& step, const std::vector<Contents>& plain) {
  for (const Contents& expected : plain) {
    if (step.step().has_value() || step.contents() != expected) return false;
  }
  return true;
}

std::string faults_but_peak(const Program& program, const Plan& plan) {
  constexpr int64_t kPlenty = int64_t{1} << 30;
  std::vector<Fault> found =
      verify(program, plan, {.capacity_bytes = {plan.certificate.height_bytes, kPlenty, kPlenty}});
  std::erase_if(found, [](const Fault& it) { return it.kind == FaultKind::WrongCertificate; });
  return describe(found);
}

int32_t first_lasting_write(const Program& program, const Plan& plan) {
  const std::vector<Action>& lane = plan.lane(Lane::Compute);
  for (size_t i = 0; i < lane.size(); ++i) {
    for (const ResidencyId written : lane[i].run.writes) {
      const StorageId storage = plan.residencies[written.index()].storage;
      if (program.storages[storage.index()].has_content_at_start) return static_cast<int32_t>(i);
    }
  }
  return static_cast<int32_t>(lane.size());
}

}  // namespace fitstep
