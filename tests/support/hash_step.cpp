#include "tests/support/hash_step.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/hash.h"
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"
#include "fitstep/run/executor.h"
#include "fitstep/run/lane_copies.h"

namespace fitstep {
namespace {

constexpr int32_t kTiers = 2;

// Bytes that look random and follow from `seed`; half of their words are zero, as behind a ReLU.
void derive(uint64_t seed, char* begin, int64_t size_bytes) {
  constexpr int64_t kWordBytes = 4;
  uint64_t state = seed | 1U;
  bool is_zero = false;
  for (int64_t i = 0; i < size_bytes; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    if (i % kWordBytes == 0) is_zero = (state >> 40U & 1U) != 0;
    begin[i] = is_zero ? '\0' : static_cast<char>(state >> 56U);
  }
}

// Whether every form that may stand in for the op reads this: the others cannot depend on it.
bool is_read_by_all(const Op& op, const Read& read) {
  return std::ranges::all_of(op.forms, [&](const Form& form) {
    return !form.has_equal_bits || std::ranges::any_of(form.reads, [&](const Read& other) {
      return other.storage == read.storage && other.version == read.version &&
             other.kind != ReadKind::ShapeOnly;
    });
  });
}

}  // namespace

Result<std::unique_ptr<HashStep>> HashStep::make(const Program& program, const Plan& plan,
                                                 std::shared_ptr<Device> device) {
  std::unique_ptr<HashStep> made(new HashStep(program, plan, std::move(device)));
  FITSTEP_TRY_STATUS(made->reserve());
  made->external_.resize(program.storages.size());
  made->fill();
  return made;
}

Status HashStep::reserve() {
  std::vector<const Arena*> tiers;
  for (int32_t tier = 0; tier < kTiers; ++tier) {
    const int64_t size_bytes =
        tier == 0 ? plan_.certificate.height_bytes : tier_bytes(plan_, TierId(tier));
    arenas_.emplace_back();
    if (size_bytes > 0) {
      FITSTEP_TRY(arenas_.back(), Arena::make(device_, size_bytes, TierId(tier)));
    }
    tiers.push_back(arenas_.back().get());
  }
  if (!has_copy_lanes(plan_)) return Done{};
  FITSTEP_TRY(LaneCopies copies, lane_copies(plan_, tiers));
  FITSTEP_TRY(lanes_, device_->open_lanes(std::move(copies)));
  return Done{};
}

void HashStep::set_queue(std::function<void(std::function<void()>)> launch,
                         std::function<void()> settle) {
  launch_ = std::move(launch);
  settle_ = std::move(settle);
}

void HashStep::fill() {
  settle_();
  for (size_t i = 0; i < program_.storages.size(); ++i) {
    const Storage& storage = program_.storages[i];
    external_[i].assign(static_cast<size_t>(storage.size_bytes), '\0');
    if (storage.has_content_at_start) derive(i * 77 + 1, external_[i].data(), storage.size_bytes);
  }
  for (size_t i = 0; i < plan_.residencies.size(); ++i) {
    const Residency& residency = plan_.residencies[i];
    if (!residency.is_home || residency.tier == kExternalTier || residency.size_bytes == 0)
      continue;
    const std::string& content = external_[residency.storage.index()];
    std::ranges::copy(content, address(ResidencyId(i)));
  }
}

std::optional<Stopped> HashStep::step() { return execute(plan_, *this, lanes_.get()); }

std::vector<std::string> HashStep::contents() const {
  settle_();
  std::vector<std::string> found(program_.storages.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (is_external(program_.storages[i].kind)) found[i] = external_[i];
  }
  for (size_t i = 0; i < plan_.residencies.size(); ++i) {
    const Residency& residency = plan_.residencies[i];
    if (!residency.is_home || residency.tier == kExternalTier || residency.size_bytes == 0)
      continue;
    found[residency.storage.index()].assign(address(ResidencyId(i)),
                                            static_cast<size_t>(residency.size_bytes));
  }
  return found;
}

char* HashStep::address(ResidencyId id) const {
  const Residency& residency = plan_.residencies[id.index()];
  if (residency.tier == kExternalTier || residency.size_bytes == 0) {
    return external_[residency.storage.index()].data();
  }
  return arenas_[residency.tier.index()]
      ->address(residency.offset_bytes, residency.size_bytes)
      .value();
}

uint64_t HashStep::hash_reads(const Run& run, const Form& form) const {
  const Op& op = program_.ops[run.op.index()];
  std::vector<std::pair<StorageId, uint64_t>> seen;
  for (size_t i = 0; i < form.reads.size(); ++i) {
    const Read& read = form.reads[i];
    if (read.kind == ReadKind::ShapeOnly || !is_read_by_all(op, read)) continue;
    const auto size_bytes = program_.storages[read.storage.index()].size_bytes;
    Fingerprint bytes;
    bytes.add(std::string_view(address(run.reads[i]), static_cast<size_t>(size_bytes)));
    seen.emplace_back(read.storage, bytes.value());
  }
  std::ranges::sort(seen);
  Fingerprint all;
  all.add(int64_t{run.op.value()});
  for (const auto& [storage, value] : seen) {
    all.add(int64_t{storage.value()});
    all.add(static_cast<int64_t>(value));
  }
  return all.value();
}

Status HashStep::run(int32_t position) {
  if (position == failing_) return Error{ErrorCode::Device, "the op failed"};
  launch_([this, position] { run_op(position); });
  return Done{};
}

void HashStep::run_op(int32_t position) {
  const Run& it = plan_.lane(Lane::Compute)[static_cast<size_t>(position)].run;
  const Form& form = program_.ops[it.op.index()].forms[static_cast<size_t>(it.form)];
  const uint64_t hash = hash_reads(it, form);
  for (size_t i = 0; i < form.requests.size(); ++i) {
    const Request& request = form.requests[i];
    if (!request.output.is_none() || request.size_bytes == 0) continue;
    char* scratch = arenas_[0]->address(it.request_offset_bytes[i], request.size_bytes).value();
    derive(hash + i, scratch, request.size_bytes);
  }
  for (size_t i = 0; i < form.writes.size(); ++i) {
    const StorageId storage = form.writes[i].storage;
    derive(hash ^ (storage.index() * 1000 + 1), address(it.writes[i]),
           program_.storages[storage.index()].size_bytes);
  }
}

Status HashStep::copy(int32_t position) {
  const Copy it = plan_.lane(Lane::Compute)[static_cast<size_t>(position)].copy;
  const int64_t size_bytes = plan_.residencies[it.source.index()].size_bytes;
  launch_([=, this] { std::copy_n(address(it.source), size_bytes, address(it.target)); });
  return Done{};
}

}  // namespace fitstep
