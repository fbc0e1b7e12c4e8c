#include "fitstep_torch/lower/in_place.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace fitstep::torch_side {
namespace {

// By storage: index of the last op that uses it.
std::vector<size_t> last_uses(const StepProgram& step) {
  std::vector<size_t> last(step.program.storages.size(), 0);
  for (size_t i = 0; i < step.program.ops.size(); ++i) {
    const Form& form = step.program.ops[i].forms[0];
    for (const Read& read : form.reads) last[read.storage.index()] = i;
    for (const Write& write : form.writes) last[write.storage.index()] = i;
  }
  return last;
}

bool is_whole_temporary(const Program& program, const TensorRef& tensor) {
  const Storage& storage = program.storages[static_cast<size_t>(tensor.storage)];
  return storage.kind == StorageKind::Temporary && !storage.is_persistent && !tensor.is_conjugate &&
         !tensor.is_negative && covers(tensor, storage.size_bytes);
}

bool has_one_geometry(const TensorRef& a, const TensorRef& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset && a.dtype == b.dtype;
}

bool is_made_here(const Form& form, StorageId storage) {
  return std::ranges::count(form.writes, storage, &Write::storage) == 1 &&
         std::ranges::count(form.reads, storage, &Read::storage) == 0;
}

// The arguments whose address the only result could take.
std::vector<size_t> overwritable(const StepProgram& step, const Form& form, const TorchCall& call) {
  std::vector<size_t> found;
  const std::vector<TensorRef> results = tensors_of(call.results);
  if (results.size() != 1 || !is_whole_temporary(step.program, results[0]) ||
      !is_made_here(form, StorageId(results[0].storage)))
    return found;
  const std::vector<TensorRef> all = tensors_of(call.arguments);
  for (const std::string& name : rule_of(call.handle).may_overwrite) {
    const auto index = static_cast<size_t>(argument_index(call.handle, name));
    if (call.arguments[index].tensors.size() != 1 || !call.arguments[index].tensors[0]) continue;
    const TensorRef& tensor = *call.arguments[index].tensors[0];
    if (!has_one_geometry(tensor, results[0]) || !is_whole_temporary(step.program, tensor) ||
        std::ranges::count(all, tensor.storage, &TensorRef::storage) != 1)
      continue;
    const auto read = std::ranges::find(form.reads, StorageId(tensor.storage), &Read::storage);
    if (read != form.reads.end() && read->kind == ReadKind::Data) found.push_back(index);
  }
  return found;
}

// Visits those tensors of a call that have one row for each row of its batch.
template <class Visit>
void for_each_batch(TorchCall& call, const Visit& visit) {
  const TensorRef lead = *call.arguments[0].tensors.front();
  const auto see = [&](Value& value) {
    for (std::optional<TensorRef>& tensor : value.tensors) {
      if (tensor.has_value() && tensor->sizes.size() == lead.sizes.size() &&
          tensor->sizes[0] == lead.sizes[0])
        visit(*tensor);
    }
  };
  const int32_t weight = argument_index(call.handle, "weight");
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (static_cast<int32_t>(i) != weight) see(call.arguments[i]);
  }
  // In a convolution's backward only the first result has a batch; the others belong to the weight.
  if (!call.results.empty()) see(call.results[0]);
}

}  // namespace

std::vector<InPlace> in_place_results_of(const StepProgram& step) {
  std::vector<InPlace> found_places;
  const std::vector<size_t> last = last_uses(step);
  for (size_t i = 0; i < step.program.ops.size(); ++i) {
    const Form& form = step.program.ops[i].forms[0];
    const TorchCall& call = step.calls[form.call.index()];
    const std::vector<size_t> found = overwritable(step, form, call);
    if (found.empty()) continue;
    // Prefer an input whose last use is this op: its address becomes free.
    const auto ends = std::ranges::find_if(found, [&](size_t argument) {
      return last[static_cast<size_t>(call.arguments[argument].tensors[0]->storage)] == i;
    });
    found_places.push_back(
        {.op = OpId(i), .argument = ends == found.end() ? found.front() : *ends});
  }
  return found_places;
}

void allow(const InPlace& in_place, StepProgram& step) {
  Form& form = step.program.ops[in_place.op.index()].forms[0];
  const TorchCall& call = step.calls[form.call.index()];
  const StorageId result(tensors_of(call.results)[0].storage);
  for (Write& write : form.writes) {
    if (write.storage == result)
      write.may_take = StorageId(call.arguments[in_place.argument].tensors[0]->storage);
  }
}

std::string in_place_claim(const TorchCall& call, size_t argument) {
  return "in place of " + call.handle.schema().arguments()[argument].name();
}

int64_t operand_bytes(const TorchCall& call, const std::vector<int64_t>& size_bytes) {
  std::set<int32_t> seen;
  int64_t sum_bytes = 0;
  for (const auto* values : {&call.arguments, &call.results}) {
    for (const TensorRef& tensor : tensors_of(*values)) {
      if (!seen.insert(tensor.storage).second) continue;
      sum_bytes += std::max(size_bytes[static_cast<size_t>(tensor.storage)], reach_bytes(tensor));
    }
  }
  return sum_bytes;
}

int64_t most_operand_bytes(std::span<char> room) {
  const auto room_bytes = static_cast<int64_t>(room.size());
  return room.empty() ? std::numeric_limits<int64_t>::max() : room_bytes / 16 * 15;
}

int64_t rows_of(const TorchCall& call) {
  if (call.arguments.empty() || call.arguments[0].kind != Value::Kind::Tensor) return 0;
  const std::optional<TensorRef>& lead = call.arguments[0].tensors.front();
  return lead.has_value() && !lead->sizes.empty() ? lead->sizes[0] : 0;
}

FewerRows with_fewer_rows(TorchCall call, std::vector<int64_t> size_bytes, int64_t most_bytes) {
  const int64_t all_bytes = operand_bytes(call, size_bytes);
  const std::vector<int64_t>& lead = call.arguments[0].tensors.front()->sizes;
  if (all_bytes <= most_bytes || lead.empty() || lead[0] < 2) {
    return {.call = std::move(call), .size_bytes = std::move(size_bytes)};
  }
  int64_t batch_bytes = 0;
  for_each_batch(call, [&](const TensorRef& tensor) { batch_bytes += reach_bytes(tensor); });
  const int64_t row_bytes = std::max<int64_t>(batch_bytes / lead[0], 1);
  const int64_t rows = (most_bytes - (all_bytes - batch_bytes)) / row_bytes;
  // If less than half of the rows fit, no plan has room for this call: return it unchanged.
  return with_rows(std::move(call), std::move(size_bytes), rows < lead[0] / 2 ? lead[0] : rows);
}

FewerRows with_rows(TorchCall call, std::vector<int64_t> size_bytes, int64_t rows) {
  if (const auto& lead = call.arguments[0].tensors.front()->sizes; rows < lead[0]) {
    for_each_batch(call, [&](TensorRef& tensor) {
      tensor.sizes[0] = rows;
      size_bytes[static_cast<size_t>(tensor.storage)] = reach_bytes(tensor);
    });
  }
  return {.call = std::move(call), .size_bytes = std::move(size_bytes)};
}

}  // namespace fitstep::torch_side
