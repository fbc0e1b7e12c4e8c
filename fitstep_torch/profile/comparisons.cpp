#include "fitstep_torch/profile/comparisons.h"

#include <algorithm>
#include <utility>

#include "fitstep_torch/lower.h"
#include "fitstep_torch/profile/measure.h"

namespace fitstep::torch_side {
namespace {

Result<std::vector<std::string>> test_shape_only(const Bench& bench, const TorchCall& call) {
  std::vector<std::string> refuted;
  const std::vector<size_t> arguments = shape_only_arguments(call);
  if (arguments.empty()) return refuted;
  FITSTEP_TRY(const std::vector<uint64_t> expected, bench.hash_results(call, {}));
  // A kernel that refuses poisoned inputs reads them.
  const auto are_same = [&](const std::vector<size_t>& poisoned) {
    const auto made = bench.hash_results(call, poisoned);
    return made && made.value() == expected;
  };
  if (are_same(arguments)) return refuted;
  for (const size_t argument : arguments) {
    if (!are_same({argument})) refuted.push_back(shape_only_claim(call, argument));
  }
  return refuted;
}

// How many rows of the call's batch fit into the room; 0 if all fit or the call has no batch.
int64_t fewer_rows(const TorchCall& call, const std::vector<int64_t>& sizes,
                   const Workplace& place) {
  const int64_t rows = rows_of(call);
  if (rows == 0) return 0;
  const int64_t most_bytes = most_operand_bytes(place.room);
  const int64_t fitting = rows_of(with_fewer_rows(call, sizes, most_bytes).call);
  return fitting < rows ? fitting : 0;
}

// Calls `look(rows)` (0: all rows); calls it on all rows if a kernel refuses fewer.
template <class Look>
auto on_rows(int64_t rows, const Look& look) {
  auto found = look(rows);
  return found || rows == 0 ? found : look(0);
}

FewerRows cut(const TorchCall& call, const std::vector<int64_t>& sizes, int64_t rows) {
  if (rows == 0) return {.call = call, .size_bytes = sizes};
  return with_rows(call, sizes, rows);
}

Result<std::vector<uint64_t>> hash_chain(std::vector<TorchCall> calls, std::vector<int64_t> sizes,
                                         int64_t rows, const Workplace& place) {
  for (TorchCall& call : calls) {
    FewerRows some = cut(call, sizes, rows);
    call = std::move(some.call);
    sizes = std::move(some.size_bytes);
  }
  return Bench(std::move(sizes), place).hash_last_results(calls);
}

using BothHashes = std::pair<std::vector<uint64_t>, std::vector<uint64_t>>;

// Hashes of the results of two calls with equal inputs.
Result<BothHashes> hash_both(const TorchCall& a, const TorchCall& b,
                             const std::vector<int64_t>& sizes, const Workplace& place) {
  return on_rows(fewer_rows(a, sizes, place), [&](int64_t rows) -> Result<BothHashes> {
    const FewerRows of_a = cut(a, sizes, rows);
    const FewerRows of_b = cut(b, sizes, rows);
    FITSTEP_TRY(std::vector<uint64_t> first,
                Bench(of_a.size_bytes, place).hash_results(of_a.call, {}));
    FITSTEP_TRY(std::vector<uint64_t> second,
                Bench(of_b.size_bytes, place).hash_results(of_b.call, {}));
    return BothHashes(std::move(first), std::move(second));
  });
}

}  // namespace

Result<std::vector<std::string>> test_shape_only(const TorchCall& call,
                                                 const std::vector<int64_t>& sizes,
                                                 const Workplace& place) {
  return on_rows(fewer_rows(call, sizes, place), [&](int64_t rows) {
    const FewerRows some = cut(call, sizes, rows);
    return test_shape_only(Bench(some.size_bytes, place), some.call);
  });
}

std::vector<size_t> unread_arguments(const TorchCall& call,
                                     const std::vector<std::string>& refuted) {
  std::vector<size_t> unread;
  const std::vector<TensorRef> all = tensors_of(call.arguments);
  for (const size_t argument : shape_only_arguments(call)) {
    const Value& value = call.arguments[argument];
    if (value.kind != Value::Kind::Tensor || !value.tensors.front()) continue;
    const int32_t storage = value.tensors.front()->storage;
    const bool is_alone = std::ranges::count(all, storage, &TensorRef::storage) == 1;
    const bool holds = std::ranges::count(refuted, shape_only_claim(call, argument)) == 0;
    if (is_alone && holds) unread.push_back(argument);
  }
  return unread;
}

std::optional<size_t> taken_argument(const Form& form, const TorchCall& call) {
  if (form.writes.size() != 1 || form.writes.front().may_take.is_none()) return std::nullopt;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Value& value = call.arguments[i];
    if (value.kind == Value::Kind::Tensor && value.tensors.front() &&
        StorageId(value.tensors.front()->storage) == form.writes.front().may_take)
      return i;
  }
  return std::nullopt;
}

Result<bool> same_results(const TorchCall& a, const TorchCall& b, const std::vector<int64_t>& sizes,
                          const Workplace& place) {
  FITSTEP_TRY(const BothHashes hashes, hash_both(a, b, sizes, place));
  return hashes.first == hashes.second;
}

Result<bool> same_first_results(const TorchCall& a, const TorchCall& b,
                                const std::vector<int64_t>& sizes, const Workplace& place) {
  FITSTEP_TRY(const BothHashes hashes, hash_both(a, b, sizes, place));
  return hashes.first.front() == hashes.second.front();
}

Result<bool> same_when_split(const StepProgram& step, const Split& split,
                             const std::vector<int64_t>& sizes, const Workplace& place) {
  const int64_t most_bytes = most_operand_bytes(place.room);
  const FewerRows whole = with_fewer_rows(split.joint, sizes, most_bytes);
  FITSTEP_TRY(std::vector<uint64_t> joint,
              Bench(whole.size_bytes, place).hash_results(whole.call, {}));
  const int64_t rows = whole.call.arguments[0].tensors.front()->sizes[0];
  std::vector<uint64_t> parts;
  for (int32_t k = 0; k < split.parts; ++k) {
    const Op& op = step.program.ops[split.first.index() + static_cast<size_t>(k)];
    const FewerRows part = with_rows(step.calls[op.forms[0].call.index()], sizes, rows);
    FITSTEP_TRY(const std::vector<uint64_t> made,
                Bench(part.size_bytes, place).hash_results(part.call, {}));
    parts.insert(parts.end(), made.begin(), made.end());
  }
  // The parts make the gradients in another order.
  std::sort(joint.begin(), joint.end());
  std::sort(parts.begin(), parts.end());
  return joint == parts;
}

Result<bool> same_ends(const Chains& chains, const std::vector<int64_t>& sizes,
                       const Workplace& place) {
  const int64_t fitting = fewer_rows(chains.plain.back(), sizes, place);
  return on_rows(fitting, [&](int64_t rows) -> Result<bool> {
    FITSTEP_TRY(const std::vector<uint64_t> plain, hash_chain(chains.plain, sizes, rows, place));
    FITSTEP_TRY(const std::vector<uint64_t> other, hash_chain(chains.packed, sizes, rows, place));
    return plain == other;
  });
}

}  // namespace fitstep::torch_side
