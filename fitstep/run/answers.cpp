#include "fitstep/run/answers.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"

namespace fitstep {

void Answers::begin_op(std::span<const Expected> expected) {
  expected_ = expected;
  next_ = 0;
  state_.assign(expected.size(), 0);
  reserve_used_ = 0;
  is_active_ = true;
}

void Answers::end_op() {
  is_active_ = false;
  expected_ = {};
}

void Answers::set_reserve(char* address, int64_t size_bytes) {
  reserve_ = address;
  reserve_bytes_ = size_bytes;
}

void Answers::lend(char* base, int64_t size_bytes) {
  loan_.emplace(Loan{.begin = base, .end = base + size_bytes, .used = {}});
}

int64_t Answers::take_back() {
  int64_t used_bytes = 0;
  if (loan_) {
    for (const auto& [at, size_bytes] : loan_->used) used_bytes += size_bytes;
  }
  loan_.reset();
  return used_bytes;
}

void Answers::start_log() {
  log_.clear();
  is_logging_ = true;
}

std::vector<MemoryEvent> Answers::stop_log() {
  is_logging_ = false;
  return std::move(log_);
}

int64_t Answers::aligned(int64_t size_bytes) const {
  return align_up(size_bytes, alignment_bytes_);
}

char* Answers::take_loan(int64_t size_bytes) {
  if (!loan_) return nullptr;
  char* at = loan_->begin;
  for (const auto& [other, other_bytes] : loan_->used) {
    if (other - at >= size_bytes) break;
    at = other + other_bytes;
  }
  if (loan_->end - at < size_bytes) return nullptr;
  loan_->used.emplace(at, aligned(size_bytes));
  return at;
}

// True if another request still has bytes of this one.
bool Answers::waits(size_t index) const {
  return std::ranges::any_of(expected_[index].after_release_of, [this](int32_t other) {
    return state_[static_cast<size_t>(other)] == 1;
  });
}

bool Answers::may_serve(size_t index, int64_t size_bytes) const {
  return state_[index] == 0 && expected_[index].size_bytes == size_bytes && !waits(index);
}

bool Answers::may_serve_less(size_t index, int64_t size_bytes) const {
  const Expected& request = expected_[index];
  return request.may_be_less && state_[index] == 0 && size_bytes < request.size_bytes &&
         !waits(index);
}

// Index of the expected request with this size; expected_.size() if the request is unforeseen.
// Requests of any thread may come in any order. An equal size is taken before a larger expected
// request that may be less.
size_t Answers::find_expected(int64_t size_bytes) const {
  const size_t count = expected_.size();
  size_t found = count;
  for (size_t i = next_; i < count; ++i) {
    if (may_serve(i, size_bytes)) return i;
    if (found == count && may_serve_less(i, size_bytes)) found = i;
    const bool may_pass = expected_[i].is_any_thread || expected_[i].may_be_less;
    if (state_[i] == 0 && !may_pass) break;
  }
  return found;
}

bool Answers::is_too_large(int64_t size_bytes) const {
  return size_bytes > most_unforeseen_bytes_ &&
         std::ranges::find(spared_, size_bytes) == spared_.end();
}

Answer Answers::answer_in_op(int64_t size_bytes) {
  const size_t index = find_expected(size_bytes);
  if (index < expected_.size()) {
    state_[index] = 1;
    while (next_ < expected_.size() && state_[next_] != 0) ++next_;
    ++counters_.planned;
    return {.address = expected_[index].address, .is_argument = expected_[index].is_argument};
  }
  if (is_too_large(size_bytes)) {
    ++counters_.refused;
    return {.is_refused = true};
  }
  const int64_t rounded = aligned(size_bytes);
  if (reserve_used_ + rounded <= reserve_bytes_) {
    char* const address = reserve_ + reserve_used_;
    reserve_used_ += rounded;
    ++counters_.unforeseen;
    counters_.unforeseen_bytes += size_bytes;
    return {.address = address};
  }
  ++counters_.violations;
  counters_.violation_bytes += size_bytes;
  return {};
}

Answer Answers::answer(int64_t size_bytes) {
  if (!is_active_ && !loan_ && most_unforeseen_bytes_ == kNoMost) return {};
  const Lock locked(lock_);
  if (is_active_) return answer_in_op(size_bytes);
  if (is_too_large(size_bytes)) return {.is_refused = true};
  return {.address = take_loan(size_bytes)};
}

void Answers::note_request(int32_t thread, void* address, int64_t size_bytes) {
  if (!is_logging_) return;
  const Lock locked(lock_);
  log_.push_back(
      {.is_release = false, .thread = thread, .size_bytes = size_bytes, .address = address});
}

void Answers::note_release(int32_t thread, void* address, int64_t size_bytes) {
  const Lock locked(lock_);
  if (is_logging_) {
    log_.push_back(
        {.is_release = true, .thread = thread, .size_bytes = size_bytes, .address = address});
  }
  if (loan_) loan_->used.erase(static_cast<char*>(address));
  if (!is_active_) return;
  for (size_t i = 0; i < expected_.size(); ++i) {
    if (state_[i] != 1 || expected_[i].address != address) continue;
    state_[i] = expected_[i].is_reusable ? 0 : 2;
    if (state_[i] == 0) next_ = std::min(next_, i);
    return;
  }
}

Status ArenaRanges::add(const char* base, int64_t size_bytes) {
  const std::lock_guard guard(mutex_);
  for (Range& range : ranges_) {
    if (range.end.load() != 0) continue;
    range.begin = reinterpret_cast<uintptr_t>(base);
    range.end = reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(size_bytes);
    return Done{};
  }
  return Error{ErrorCode::Device,
               "64 arenas are open; call close() on compiled steps that you no longer use"};
}

void ArenaRanges::remove(const char* base) {
  const std::lock_guard guard(mutex_);
  for (Range& range : ranges_) {
    if (range.begin.load() != reinterpret_cast<uintptr_t>(base)) continue;
    range.end = 0;
    range.begin = 0;
  }
}

bool ArenaRanges::contains(const void* address) const {
  const auto value = reinterpret_cast<uintptr_t>(address);
  return std::ranges::any_of(ranges_, [value](const Range& range) {
    const uintptr_t end = range.end.load(std::memory_order_relaxed);
    return value < end && value >= range.begin.load(std::memory_order_relaxed);
  });
}

}  // namespace fitstep
