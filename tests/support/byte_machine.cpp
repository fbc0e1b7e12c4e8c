#include "tests/support/byte_machine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/hash.h"
#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_blocks.h"
#include "tests/support/byte_memory.h"

namespace fitstep {
namespace {

Token token_of(StorageId storage, int32_t version) {
  return int64_t{storage.value()} * 1'000'000 + version;
}

}  // namespace

ByteMachine::ByteMachine(const Program& program, const Plan& plan, int64_t arena_bytes)
    : program_(&program),
      plan_(&plan),
      ends_(block_ends(program, plan, arena_bytes)),
      memory_(ends_) {
  set_up();
}

std::vector<size_t> ByteMachine::movable() const {
  std::vector<size_t> lanes;
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (running_[lane].is_running || can_begin(lane)) lanes.push_back(lane);
  }
  return lanes;
}

void ByteMachine::move(size_t lane) {
  Running& mine = running_[lane];
  const auto position = static_cast<int64_t>(ended_[lane]);
  const int64_t half = 2 * position + (mine.is_running ? 1 : 0);
  memory_.number_garbage((half * kLaneCount + static_cast<int64_t>(lane) + 1) * 1'000'000);
  const Action& it = action(lane);
  const bool is_copy = it.kind == Action::Kind::Copy;
  if (!mine.is_running) {
    mine = Running{.is_running = true, .guarded = {}, .copied = {}};
    if (is_copy) {
      begin_copy(lane);
    } else {
      begin_run(lane);
    }
    return;
  }
  mine.is_running = false;
  if (is_copy) {
    end_copy(lane, it);
  } else {
    end_run(lane, it);
  }
  mine = Running{};
  ++ended_[lane];
}

uint64_t ByteMachine::state() const {
  Fingerprint state;
  memory_.add_to(state);
  for (const auto& [storage, token] : external_) {
    state.add(int64_t{storage.value()});
    state.add(token);
  }
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    state.add(static_cast<int64_t>(2 * ended_[lane]) + (running_[lane].is_running ? 1 : 0));
    // What is guarded follows from the action; what was copied, from the order so far.
    for (const Token token : running_[lane].copied) state.add(token);
  }
  return state.value();
}

bool ByteMachine::is_residency(ResidencyId id) const {
  if (id.is_none() || id.index() >= plan_->residencies.size()) return false;
  const StorageId storage = plan_->residencies[id.index()].storage;
  return !storage.is_none() && storage.index() < program_->storages.size();
}

bool ByteMachine::is_external_place(ResidencyId id) const {
  return plan_->residencies[id.index()].tier == kExternalTier;
}

bool ByteMachine::is_generator(StorageId id) const {
  return program_->storages[id.index()].kind == StorageKind::Generator;
}

void ByteMachine::set_up() {
  for (size_t i = 0; i < plan_->residencies.size(); ++i) {
    const ResidencyId id(i);
    const Residency& residency = plan_->residencies[i];
    if (!is_residency(id)) return damaged("residency {} is of no storage", i);
    const Storage& storage = program_->storages[residency.storage.index()];
    const Token content =
        storage.has_content_at_start ? token_of(residency.storage, 0) : memory_.garbage();
    if (residency.tier == kExternalTier) {
      if (!is_external(storage.kind)) return damaged("residency {} has no place", i);
      external_.emplace(residency.storage, content);
    } else if (residency.is_home) {
      const auto block = place_of(id);
      if (!block) return;
      memory_.fill(*block, content);
      if (!memory_.hand_over(*block, 0, owner_of(id))) return damaged("two homes share bytes");
    }
  }
}

std::optional<Place> ByteMachine::place(TierId tier, int64_t offset_bytes, int64_t size_bytes) {
  const std::optional<Place> found = ends_.place(tier.value(), offset_bytes, size_bytes);
  if (!found) damaged("no {} bytes at {} on tier {}", size_bytes, offset_bytes, tier.value());
  return found;
}

// A kernel uses as many bytes as the storage has, whatever the plan says.
std::optional<Place> ByteMachine::place_of(ResidencyId id) {
  const Residency& residency = plan_->residencies[id.index()];
  return place(residency.tier, residency.offset_bytes,
               program_->storages[residency.storage.index()].size_bytes);
}

bool ByteMachine::can_begin(size_t lane) const {
  if (ended_[lane] == plan_->lanes[lane].size()) return false;
  return std::ranges::all_of(action(lane).waits, [&](ActionRef wait) {
    const auto other = static_cast<size_t>(wait.lane);
    return other < kLaneCount && wait.position >= 0 &&
           static_cast<size_t>(wait.position) < ended_[other];
  });
}

void ByteMachine::begin_copy(size_t lane) {
  const Copy& copy = action(lane).copy;
  if (!is_residency(copy.source) || !is_residency(copy.target)) return damaged("copy of nothing");
  if (storage_of(copy.source) != storage_of(copy.target)) return damaged("copy of two storages");
  if (copy.source == copy.target) return damaged("copy onto itself");
  running_[lane].copied = content_of(copy.source);
  if (!is_external_place(copy.target)) guard_residency(lane, copy.target);
}

std::vector<Token> ByteMachine::content_of(ResidencyId id) {
  if (is_external_place(id)) {
    const auto size_bytes = program_->storages[storage_of(id).index()].size_bytes;
    return std::vector<Token>(static_cast<size_t>(size_bytes), external_[storage_of(id)]);
  }
  const auto block = place_of(id);
  return block ? memory_.read(*block) : std::vector<Token>();
}

void ByteMachine::guard(size_t lane, const std::optional<Place>& block, Tick end, Owner owner) {
  if (!block) return;
  if (!memory_.hand_over(*block, 0, owner)) {
    return damaged("lane {} position {}: two live blocks share bytes", lane, ended_[lane]);
  }
  const Guarded guarded{*block, memory_.garbage(), end, owner};
  memory_.fill(*block, guarded.garbage);
  running_[lane].guarded.push_back(guarded);
}

void ByteMachine::guard_scratch(size_t lane, const std::optional<Place>& block, Tick end) {
  guard(lane, block, end, memory_.garbage());
}

// What has ended by `tick` must still be what it was.
void ByteMachine::check_guarded(size_t lane, Tick tick) {
  for (const Guarded& guarded : running_[lane].guarded) {
    if (guarded.end > tick) continue;
    if (guarded.owner < 0) memory_.let_go(guarded.place, guarded.owner);
    if (memory_.holds(guarded.place, guarded.garbage)) continue;
    damaged("lane {} position {}: a block that it fills is overwritten", lane, ended_[lane]);
  }
  std::erase_if(running_[lane].guarded, [&](const Guarded& it) { return it.end <= tick; });
}

// The op's form, if everything that the kernel is called with is there.
const Form* ByteMachine::form_of(const Run& run) const {
  const Form* found = form_in(*program_, run);
  if (found == nullptr) return nullptr;
  const Form& form = *found;
  const bool has_all = run.reads.size() == form.reads.size() &&
                       run.writes.size() == form.writes.size() &&
                       run.request_offset_bytes.size() == form.requests.size();
  if (!has_all) return nullptr;
  for (size_t i = 0; i < run.reads.size(); ++i) {
    if (form.reads[i].kind == ReadKind::ShapeOnly) continue;
    if (!is_operand(run.reads[i], form.reads[i].storage)) return nullptr;
    const bool is_plain = plan_->residencies[run.reads[i].index()].code == Code::None;
    if (!is_plain) return nullptr;
  }
  for (size_t i = 0; i < run.writes.size(); ++i) {
    if (!is_operand(run.writes[i], form.writes[i].storage)) return nullptr;
    if (plan_->residencies[run.writes[i].index()].code != Code::None) return nullptr;
  }
  return &form;
}

bool ByteMachine::is_operand(ResidencyId id, StorageId storage) const {
  if (!is_residency(id) || storage_of(id) != storage) return false;
  return is_external_place(id) || plan_->residencies[id.index()].tier == kDeviceTier;
}

void ByteMachine::begin_run(size_t lane) {
  const Run& run = action(lane).run;
  const Form* form = lane == 0 ? form_of(run) : nullptr;
  if (form == nullptr) return damaged("lane {} position {} cannot run", lane, ended_[lane]);
  check_reads(run, *form);
  walk_kernel(lane, run, *form);
}

void ByteMachine::check_reads(const Run& run, const Form& form) {
  for (size_t i = 0; i < form.reads.size(); ++i) {
    const Read& read = form.reads[i];
    if (read.kind == ReadKind::ShapeOnly) continue;
    const Token token = token_of(read.storage, read.version);
    // A draw is from the generator itself, unless the form restores another state.
    const bool draws = is_generator(read.storage) && !form.restores_generator;
    if (is_external_place(run.reads[i]) || draws) {
      const auto found = external_.find(read.storage);
      if (found != external_.end() && found->second == token) continue;
      damaged("op {} reads another external content", run.op.value());
    } else if (const auto block = place_of(run.reads[i]); block && !memory_.holds(*block, token)) {
      damaged("op {} reads other bytes in residency {}", run.op.value(), run.reads[i].value());
    }
  }
}

bool ByteMachine::is_in_place_of(ResidencyId output, ResidencyId input) const {
  const Residency& to = plan_->residencies[output.index()];
  const Residency& from = plan_->residencies[input.index()];
  return to.tier == from.tier && to.offset_bytes == from.offset_bytes &&
         program_->storages[to.storage.index()].size_bytes <=
             program_->storages[from.storage.index()].size_bytes;
}

// Fills what the kernel requests with garbage, position by position.
void ByteMachine::walk_kernel(size_t lane, const Run& run, const Form& form) {
  const bool is_ordered = std::ranges::none_of(form.requests, &Request::is_any_thread);
  std::vector<std::pair<Tick, size_t>> begins;  // Of requests, in order.
  begins.reserve(form.requests.size());
  for (size_t i = 0; i < form.requests.size(); ++i) {
    begins.emplace_back(is_ordered ? form.requests[i].live.begin : 0, i);
  }
  std::ranges::sort(begins);
  for (size_t i = 0; i < form.writes.size(); ++i) {
    const bool is_requested =
        std::ranges::count(form.requests, form.writes[i].storage, &Request::output) > 0;
    if (!is_requested) begin_output(lane, run, form, i);
  }
  for (const auto& [tick, index] : begins) {
    const Request& request = form.requests[index];
    check_guarded(lane, tick);
    const int64_t offset_bytes = run.request_offset_bytes[index];
    if (request.output.is_none()) {
      const Tick end = is_ordered ? request.live.end : kToTheEnd;
      guard_scratch(lane, place(kDeviceTier, offset_bytes, request.size_bytes), end);
      continue;
    }
    const auto written = std::ranges::find(form.writes, request.output, &Write::storage);
    const auto position = static_cast<size_t>(written - form.writes.begin());
    const Residency& output = plan_->residencies[run.writes[position].index()];
    const bool is_there = output.tier == kExternalTier || output.size_bytes == 0 ||
                          output.offset_bytes == offset_bytes;
    if (!is_there) return damaged("an output of op {} is elsewhere", run.op.value());
    begin_output(lane, run, form, position);
  }
}

void ByteMachine::begin_output(size_t lane, const Run& run, const Form& form, size_t written) {
  const ResidencyId output = run.writes[written];
  if (is_external_place(output)) return;
  for (size_t i = 0; i < form.reads.size(); ++i) {
    const Read& read = form.reads[i];
    if (read.kind == ReadKind::ShapeOnly) continue;
    const Write& write = form.writes[written];
    const bool is_in_place = read.storage == write.storage && read.version == write.version - 1;
    if (is_in_place && run.reads[i] != output) return damaged("one tensor in two places");
    if (is_in_place) return;
    if (write.may_take == read.storage && is_in_place_of(output, run.reads[i])) {
      return take_place(lane, run.reads[i], output);
    }
  }
  guard_residency(lane, output);
}

// Both are there while the op runs; that is right where the input goes when the op ends.
void ByteMachine::take_place(size_t lane, ResidencyId input, ResidencyId output) {
  const bool is_over = std::ranges::count(action(lane).releases, input) > 0;
  const auto block = place_of(output);
  if (!block || block->begin == block->end) return;
  if (is_over && memory_.hand_over(*block, owner_of(input), owner_of(output))) return;
  damaged("lane {} position {}: an output takes an input that stays", lane, ended_[lane]);
}

// What changes while it is copied arrives as garbage; and so does what is not all of one version,
// for which every read would be wrong anyway.
void ByteMachine::end_copy(size_t lane, const Action& it) {
  check_guarded(lane, kToTheEnd);
  const ResidencyId target = it.copy.target;
  const std::vector<Token> content = content_of(it.copy.source);
  const bool is_whole = !content.empty() && content == running_[lane].copied &&
                        std::ranges::count(content, content.front()) == std::ssize(content);
  const Token token = is_whole ? content.front() : memory_.garbage();
  poison(it.releases, {target}, false);
  if (!damage_.empty()) return;
  if (is_external_place(target)) {
    external_[storage_of(target)] = token;
  } else if (const auto block = place_of(target)) {
    memory_.fill(*block, token);
  }
  poison(it.releases, {target}, true);
}

void ByteMachine::end_run(size_t lane, const Action& it) {
  const Form& form = *form_of(it.run);
  check_guarded(lane, kToTheEnd);
  check_reads(it.run, form);
  if (!damage_.empty()) return;
  poison(it.releases, it.run.writes, false);
  for (size_t i = 0; i < form.writes.size(); ++i) {
    const Write& write = form.writes[i];
    const Token token =
        form.has_equal_bits ? token_of(write.storage, write.version) : memory_.garbage();
    if (is_external_place(it.run.writes[i]) || is_generator(write.storage)) {
      external_[write.storage] = token;
    } else if (const auto block = place_of(it.run.writes[i])) {
      memory_.fill(*block, token);
    }
  }
  poison(it.releases, it.run.writes, true);
}

// Released bytes are anybody's: those of inputs before the outputs that may take them are there,
// those of outputs after.
void ByteMachine::poison(const std::vector<ResidencyId>& releases,
                         const std::vector<ResidencyId>& written, bool is_output) {
  for (const ResidencyId released : releases) {
    if (!is_residency(released)) return damaged("release of nothing");
    const bool is_written = std::ranges::count(written, released) > 0;
    if (is_written != is_output || is_external_place(released)) continue;
    const auto block = place_of(released);
    if (!block) return;
    memory_.fill(*block, memory_.garbage());
    memory_.let_go(*block, owner_of(released));
  }
}

void ByteMachine::check_end() {
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (ended_[lane] < plan_->lanes[lane].size()) damaged("lane {} never ends", lane);
  }
  const std::vector<int32_t> last = last_versions(*program_);
  for (size_t i = 0; i < last.size(); ++i) {
    const Storage& storage = program_->storages[i];
    const StorageId id(i);
    if (last[i] == 0 && !storage.has_content_at_start) continue;
    if (is_external(storage.kind)) {
      const auto found = external_.find(id);
      const bool is_right = found != external_.end() && found->second == token_of(id, last[i]);
      if (!is_right && (last[i] > 0 || found != external_.end())) {
        damaged("storage {} is not as the program leaves it", i);
      }
    } else if (storage.is_persistent && storage.size_bytes > 0) {
      check_home(id, token_of(id, last[i]));
    }
  }
}

void ByteMachine::check_home(StorageId storage, Token token) {
  bool is_found = false;
  for (size_t i = 0; i < plan_->residencies.size(); ++i) {
    const Residency& residency = plan_->residencies[i];
    if (residency.storage != storage || !residency.is_home) continue;
    is_found = true;
    const auto block = place_of(ResidencyId(i));
    if (block && !memory_.holds(*block, token))
      damaged("home {} is not as the program leaves it", i);
  }
  if (!is_found) damaged("storage {} has no home", storage.value());
}

}  // namespace fitstep
