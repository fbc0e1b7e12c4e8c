// Runs a plan on real bytes, one begin or end of an action at a time. The caller chooses the order
// among those that the waits allow. The machine does the worst to the plan:
//
//   memory without an owner         garbage
//   a scratch block or an output    garbage from its position in the kernel on, and must keep it
//   released memory                 garbage at once
//   a copy                          brings bytes that did not change meanwhile, else garbage
//   two live blocks on one byte     damage, even if nobody reads the byte
//
// Each version of a storage is a token in every byte. At its begin and at its end, an op compares
// the tokens that it reads with the program's versions; then it writes the tokens of its results.
// The machine knows no lifetimes and no happens-before: it only finds wrong bytes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_memory.h"

namespace fitstep {

class ByteMachine {
 public:
  // Three arenas of `arena_bytes`. The plan may be anything; both outlive this and its copies.
  //
  // REQUIRES: validate(program) holds.
  ByteMachine(const Program& program, const Plan& plan, int64_t arena_bytes);

  // Lanes whose action can end, or whose next one can begin.
  std::vector<size_t> movable() const;

  // Ends the lane's action, or begins its next one. REQUIRES: the lane is movable.
  void move(size_t lane);

  // Checks that all actions have ended, with the bytes that the program leaves. REQUIRES: no lane
  // is movable.
  void check_end();

  // The first damage; empty if there is none so far.
  const std::string& damage() const { return damage_; }

  // A hash; equal for machines with equal futures.
  uint64_t state() const;

 private:
  static constexpr Tick kToTheEnd = Tick{1} << 40;

  // A block that an action fills, with the garbage that it must still find there at `end`.
  struct Guarded {
    Place place;
    Token garbage = 0;
    Tick end = 0;     // Position of the kernel.
    Owner owner = 0;  // Negative for scratch, which goes at `end`.
  };
  struct Running {
    bool is_running = false;
    std::vector<Guarded> guarded;  // Scratch and outputs that are there.
    std::vector<Token> copied;     // What a copy found at its begin.
  };

  template <class... Arguments>
  void damaged(fmt::format_string<const Arguments&...> format, const Arguments&... arguments) {
    if (damage_.empty()) damage_ = fmt::format(format, arguments...);
  }

  void set_up();
  const Action& action(size_t lane) const { return plan_->lanes[lane][ended_[lane]]; }
  bool can_begin(size_t lane) const;

  bool is_residency(ResidencyId id) const;
  bool is_operand(ResidencyId id, StorageId storage) const;
  bool is_external_place(ResidencyId id) const;
  bool is_generator(StorageId id) const;
  StorageId storage_of(ResidencyId id) const { return plan_->residencies[id.index()].storage; }
  std::optional<Place> place(TierId tier, int64_t offset_bytes, int64_t size_bytes);
  std::optional<Place> place_of(ResidencyId id);
  std::vector<Token> content_of(ResidencyId id);
  const Form* form_of(const Run& run) const;

  static Owner owner_of(ResidencyId id) { return Owner{id.value()} + 1; }
  void guard(size_t lane, const std::optional<Place>& block, Tick end, Owner owner);
  void guard_residency(size_t lane, ResidencyId id) {
    guard(lane, place_of(id), kToTheEnd, owner_of(id));
  }
  void guard_scratch(size_t lane, const std::optional<Place>& block, Tick end);
  void check_guarded(size_t lane, Tick tick);
  void check_reads(const Run& run, const Form& form);
  void begin_copy(size_t lane);
  void begin_run(size_t lane);
  void walk_kernel(size_t lane, const Run& run, const Form& form);
  void begin_output(size_t lane, const Run& run, const Form& form, size_t written);
  void take_place(size_t lane, ResidencyId input, ResidencyId output);
  bool is_in_place_of(ResidencyId output, ResidencyId input) const;
  void end_copy(size_t lane, const Action& it);
  void end_run(size_t lane, const Action& it);
  void poison(const std::vector<ResidencyId>& releases, const std::vector<ResidencyId>& written,
              bool is_output);
  void check_home(StorageId storage, Token token);

  const Program* program_;
  const Plan* plan_;
  BlockEnds ends_;
  ByteMemory memory_;
  std::map<StorageId, Token> external_;
  std::array<Running, kLaneCount> running_;
  std::array<size_t, kLaneCount> ended_ = {};
  std::string damage_;
};

}  // namespace fitstep
