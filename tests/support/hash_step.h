// Runs a plan on a device's real memory. Every op is a stand-in: its outputs are derived from a
// hash of its inputs.
//
//   read a, b -> hash(op, bytes of a, bytes of b) -> scratch gets garbage -> outputs get bytes
//
// So one wrong byte changes everything after it. Two plans of a program agree if they leave equal
// bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"
#include "fitstep/run/executor.h"

namespace fitstep {

class HashStep final : public Kernels {
 public:
  // Reserves an arena per tier that the plan uses, and opens lanes if it has copies on any.
  // REQUIRES: validate(program) holds; ids of the plan are in range. Both outlive this.
  static Result<std::unique_ptr<HashStep>> make(const Program& program, const Plan& plan,
                                                std::shared_ptr<Device> device);

  // Ops go through `launch`, which may run them later in their order; `settle` sleeps until all
  // have run. Without this they run at once.
  void set_queue(std::function<void(std::function<void()>)> launch, std::function<void()> settle);

  // Writes the initial content of every storage that has one, in its home or outside the arenas. It
  // is equal for all plans of a program.
  void fill();

  std::optional<Stopped> step();

  // By storage, the bytes in homes and outside the arenas; empty for others.
  std::vector<std::string> contents() const;

  // Null if the plan has no copies.
  CopyLanes* lanes() const { return lanes_.get(); }

  // The op at this position of the compute lane fails from now on, before it writes; -1 for none.
  void set_failing(int32_t position) { failing_ = position; }

  Status run(int32_t position) override;
  Status copy(int32_t position) override;

 private:
  HashStep(const Program& program, const Plan& plan, std::shared_ptr<Device> device)
      : program_(program), plan_(plan), device_(std::move(device)) {}

  Status reserve();
  void run_op(int32_t position);
  char* address(ResidencyId id) const;
  uint64_t hash_reads(const Run& run, const Form& form) const;

  const Program& program_;
  const Plan& plan_;
  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<Arena>> arenas_;  // By tier; null if the plan does not use it.
  std::unique_ptr<CopyLanes> lanes_;
  mutable std::vector<std::string> external_;  // By storage.
  int32_t failing_ = -1;
  std::function<void(std::function<void()>)> launch_ = [](const auto& op) { op(); };
  std::function<void()> settle_ = [] {};
};

}  // namespace fitstep
