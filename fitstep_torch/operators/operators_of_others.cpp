#include "fitstep_torch/operators/operators_of_others.h"

#include <fmt/format.h>

#include <cstddef>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>

namespace fitstep::torch_side {
namespace {

// Namespaces of PyTorch and ours, each between spaces.
constexpr std::string_view kOwn =
    " aten fitstep prim prims debugprims rngprims inductor_prims inductor quantized _quantized "
    "quantization mkldnn mkldnn_prepacked mkl onednn sparse profiler c10d _c10d_functional "
    "_c10d_functional_autograd c10d_functional symm_mem fsdp _dtensor _native static_runtime "
    "export debug_mode_ops streams ";
// Where torch.library.custom_op registers kernels, PyTorch's own prims among them.
constexpr std::string_view kCustom = "/_library/custom_ops.py";
constexpr std::string_view kRegisteredAt = "registered at ";

struct Looked {
  std::mutex mutex;
  std::string folder;  // Of PyTorch's Python package.
  std::set<std::string> pure;
  std::unordered_map<c10::OperatorHandle, bool> known;
};

Looked& looked() {
  static auto& made = *new Looked;
  return made;
}

// PLACE of a line "CPU: registered at PLACE :: ..." of dumpState().
std::string_view place_in(std::string_view line) {
  const size_t at = line.find(kRegisteredAt);
  return at == std::string_view::npos ? std::string_view() : line.substr(at + kRegisteredAt.size());
}

// The folder in which PyTorch was built, as dumpState() shows it.
const std::string& build_folder() {
  static const std::string found = [] {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
    std::istringstream lines(op.dumpState());
    std::string line;
    while (std::getline(lines, line)) {
      const std::string_view place = place_in(line);
      const size_t end = place.find("build/aten/src/ATen/RegisterSchema.cpp");
      if (end != std::string_view::npos) return std::string(place.substr(0, end));
    }
    return std::string();
  }();
  return found;
}

// Meta and fake kernels only describe results; they do not count.
bool says_geometry(std::string_view line) {
  return line.starts_with("Meta") || line.find("Meta:") != std::string_view::npos ||
         line.starts_with("Fake") || line.starts_with("debug:") ||
         line.find("(inactive)") != std::string_view::npos;
}

bool has_kernel_of_others(const c10::OperatorHandle& op, const std::string& folder) {
  if (build_folder().empty()) return false;  // This build does not show its folder.
  const bool is_prim = op.operator_name().name.find("prims::") != std::string::npos;
  std::istringstream lines(op.dumpState());
  std::string line;
  while (std::getline(lines, line)) {
    const std::string_view place = place_in(line);
    if (place.empty() || says_geometry(line)) continue;
    const bool is_python = !folder.empty() && place.starts_with(folder);
    const bool may_be_others = place.find(kCustom) != std::string_view::npos && !is_prim;
    if (!place.starts_with(build_folder()) && (!is_python || may_be_others)) return true;
  }
  return false;
}

}  // namespace

bool is_of_others(const c10::OperatorHandle& op) {
  Looked& all = looked();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.known.find(op); found != all.known.end()) return found->second;
  const std::string& name = op.operator_name().name;
  const bool is_pure = all.pure.contains(name) || name.starts_with("fitstep::");
  const bool found = !is_pure && (!has_own_name(name) || has_kernel_of_others(op, all.folder));
  return all.known.emplace(op, found).first->second;
}

bool has_own_name(std::string_view name) {
  const std::string_view begin = name.substr(0, name.find("::"));
  const std::string_view space = begin.substr(begin.rfind(' ') + 1);
  return kOwn.find(fmt::format(" {} ", space)) != std::string_view::npos;
}

void declare_pure(const std::string& name) {
  const std::lock_guard lock(looked().mutex);
  looked().pure.insert(name);
  looked().known.clear();
}

void note_pytorchs_folder(const std::string& folder) {
  const std::lock_guard lock(looked().mutex);
  looked().folder = folder;
}

void look_at_operators_again() {
  const std::lock_guard lock(looked().mutex);
  looked().known.clear();
}

}  // namespace fitstep::torch_side
