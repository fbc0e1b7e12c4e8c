#include "fitstep/planner/bounds/floor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

bool reads_bytes_of(const Form& form, StorageId storage) {
  return std::any_of(form.reads.begin(), form.reads.end(), [&](const Read& read) {
    return read.storage == storage && read.kind != ReadKind::ShapeOnly;
  });
}

// Fine tick at which the output's memory must be there; none if the output takes no new bytes.
std::optional<Tick> birth_of(const Program& program, const Form& form, const Write& write) {
  if (has_own_place(program.storages[write.storage.index()])) return std::nullopt;
  if (is_in_place(form, write)) return std::nullopt;
  // The output may take the address of an input. Whether this input ends here is not known yet.
  if (!write.may_take.is_none() && reads_bytes_of(form, write.may_take)) return std::nullopt;
  for (const Request& request : form.requests) {
    if (request.output == write.storage) return Sequence(form).live(request).begin;
  }
  return 0;
}

// Bytes of the homes below that the form reads or writes.
int64_t visiting_bytes(const Program& program, const Homes& homes, const Form& form) {
  if (!homes.any_below()) return 0;
  std::vector<StorageId> touched;
  for (const Read& read : form.reads) {
    if (read.kind != ReadKind::ShapeOnly) touched.push_back(read.storage);
  }
  for (const Write& write : form.writes) touched.push_back(write.storage);
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  int64_t sum_bytes = 0;
  for (const StorageId storage : touched) {
    if (homes.is_below[storage.index()] != 0) {
      sum_bytes += program.storages[storage.index()].size_bytes;
    }
  }
  return sum_bytes;
}

}  // namespace

bool is_usable(const Op& op, const Form& form) {
  return &form == &op.forms[0] ||
         (form.has_equal_bits && form.writes.size() == op.forms[0].writes.size());
}

int64_t working_set_bytes(const Program& program, const Form& form) {
  return working_set_bytes(program, form, [](const Read&) { return true; });
}

int64_t working_set_bytes(const Program& program, const Form& form,
                          const std::function<bool(const Read&)>& counts) {
  std::vector<StorageId> read;
  for (const Read& operand : form.reads) {
    if (operand.kind != ReadKind::ShapeOnly && counts(operand)) read.push_back(operand.storage);
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  int64_t read_bytes = 0;
  for (const StorageId storage : read) {
    const Storage& of = program.storages[storage.index()];
    if (!has_own_place(of)) read_bytes += of.size_bytes;
  }
  const Sequence sequence(form);
  std::vector<int64_t> change(static_cast<size_t>(sequence.length()) + 1, 0);
  for (const Write& write : form.writes) {
    const std::optional<Tick> birth = birth_of(program, form, write);
    if (!birth) continue;
    change[static_cast<size_t>(*birth)] += program.storages[write.storage.index()].size_bytes;
  }
  for (const Request& request : form.requests) {
    if (!request.output.is_none()) continue;
    const Interval live = sequence.live(request);
    change[static_cast<size_t>(live.begin)] += request.size_bytes;
    change[static_cast<size_t>(live.end)] -= request.size_bytes;
  }
  int64_t live_bytes = read_bytes;
  int64_t most_bytes = read_bytes;
  for (const int64_t bytes : change) most_bytes = std::max(most_bytes, live_bytes += bytes);
  return most_bytes;
}

int64_t floor_bytes(const Program& program, const PlanRequest& request,
                    std::vector<Culprit>* culprits) {
  return floor_of(program, make_homes(program, request), culprits);
}

int64_t floor_of(const Program& program, const Homes& homes, std::vector<Culprit>* culprits) {
  std::vector<Culprit> sets;
  int64_t floor = homes.end_bytes;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].is_optional) continue;
    int64_t least_bytes = std::numeric_limits<int64_t>::max();
    for (const Form& form : program.ops[i].forms) {
      if (!is_usable(program.ops[i], form)) continue;
      const int64_t bytes = working_set_bytes(program, form) + visiting_bytes(program, homes, form);
      least_bytes = std::min(least_bytes, bytes);
    }
    if (least_bytes > 0) floor = std::max(floor, homes.bottom_bytes + least_bytes);
    sets.push_back({.op = OpId(i), .bytes = homes.bottom_bytes + least_bytes});
  }
  if (culprits != nullptr) {
    constexpr size_t kMostCulprits = 8;
    std::ranges::stable_sort(sets, std::greater(), &Culprit::bytes);
    sets.resize(std::min(sets.size(), kMostCulprits));
    *culprits = std::move(sets);
  }
  return floor;
}

}  // namespace fitstep
