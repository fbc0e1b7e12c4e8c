#include "tests/programs/with_packs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/random.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

bool may_be_packed(const Program& program, const Op& op, const Read& read, int64_t unit_bytes) {
  const Storage& storage = program.storages[read.storage.index()];
  const Form& form = op.forms.front();
  return storage.kind == StorageKind::Temporary && !storage.is_persistent &&
         storage.size_bytes >= 2 * unit_bytes && read.kind != ReadKind::ShapeOnly &&
         op.forms.size() == 1 && !op.is_random && !op.is_optional &&
         std::ranges::count(form.reads, read.storage, &Read::storage) == 1 &&
         std::ranges::count(form.writes, read.storage, &Write::storage) == 0 &&
         std::ranges::count(form.writes, read.storage, &Write::may_take) == 0;
}

// The op at `position` may read a code of its read `index`, made by an op in front of it.
void add_pack(Program& program, size_t position, size_t index, Random& random,
              const PackOptions& options) {
  const auto seconds = [&](int64_t least, int64_t most) {
    const auto choices = static_cast<uint64_t>(most - least + 1);
    return (least + static_cast<int64_t>(random.next() % choices)) * kPicosecondsPerSecond;
  };
  const StorageId code(program.storages.size());
  Op& reader = program.ops[position];
  const Read packed = reader.forms.front().reads[index];
  program.storages.push_back(
      {.name = fmt::format("m{}", code.value()), .size_bytes = options.unit_bytes});
  Form form = reader.forms.front();
  form.name = "packed";
  form.reads[index] = {.storage = code, .version = 1};
  const int64_t more_ps = seconds(-1, 1);  // Of an op that reads the code.
  form.time_ps = std::max(form.time_ps + more_ps, kPicosecondsPerSecond);
  reader.forms.push_back(std::move(form));
  Op pack{.name = "pack", .kind = OpKind::Copy, .is_optional = true};
  pack.forms.push_back({.time_ps = seconds(1, 1), .is_pure = true});
  pack.forms[0].reads = {{.storage = packed.storage, .version = packed.version}};
  pack.forms[0].writes = {{.storage = code, .version = 1, .may_take = {}}};
  program.ops.insert(program.ops.begin() + static_cast<std::ptrdiff_t>(position), std::move(pack));
}

}  // namespace

Program with_packs(Program program, uint64_t seed, const PackOptions& options) {
  Random random(seed);
  for (int32_t i = 0; i < options.most; ++i) {
    std::vector<std::pair<size_t, size_t>> places;  // (op, read)
    for (size_t op = 0; op < program.ops.size(); ++op) {
      const std::vector<Read>& reads = program.ops[op].forms.front().reads;
      for (size_t read = 0; read < reads.size(); ++read) {
        if (may_be_packed(program, program.ops[op], reads[read], options.unit_bytes)) {
          places.emplace_back(op, read);
        }
      }
    }
    if (places.empty()) break;
    const auto [op, read] = places[random.next() % places.size()];
    add_pack(program, op, read, random, options);
  }
  const Status status = validate(program);
  FITSTEP_CHECK(status.has_value(), status.error().message);
  return program;
}

}  // namespace fitstep
