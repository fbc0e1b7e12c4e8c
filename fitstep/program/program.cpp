#include "fitstep/program/program.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fitstep {

std::vector<int32_t> last_versions(const Program& program) {
  std::vector<int32_t> versions(program.storages.size(), 0);
  for (const Op& op : program.ops) {
    for (const Write& write : op.forms.front().writes) {
      int32_t& version = versions[write.storage.index()];
      version = std::max(version, write.version);
    }
  }
  return versions;
}

const char* to_string(StorageKind kind) {
  switch (kind) {
    case StorageKind::Parameter:
      return "parameter";
    case StorageKind::Gradient:
      return "gradient";
    case StorageKind::OptimizerState:
      return "optimizer_state";
    case StorageKind::Buffer:
      return "buffer";
    case StorageKind::Input:
      return "input";
    case StorageKind::Output:
      return "output";
    case StorageKind::Constant:
      return "constant";
    case StorageKind::Temporary:
      return "temporary";
    case StorageKind::Generator:
      return "generator";
  }
  return "unknown";
}

const char* to_string(ReadKind kind) {
  switch (kind) {
    case ReadKind::Data:
      return "data";
    case ReadKind::ShapeOnly:
      return "shape";
    case ReadKind::SignOnly:
      return "sign";
    case ReadKind::BoundedInteger:
      return "integer";
  }
  return "unknown";
}

const char* to_string(OpKind kind) {
  switch (kind) {
    case OpKind::Convolution:
      return "convolution";
    case OpKind::Matmul:
      return "matmul";
    case OpKind::Normalisation:
      return "normalisation";
    case OpKind::Activation:
      return "activation";
    case OpKind::Pool:
      return "pool";
    case OpKind::Attention:
      return "attention";
    case OpKind::Elementwise:
      return "elementwise";
    case OpKind::Reduction:
      return "reduction";
    case OpKind::Random:
      return "random";
    case OpKind::Update:
      return "update";
    case OpKind::Collective:
      return "collective";
    case OpKind::Copy:
      return "copy";
    case OpKind::Other:
      return "other";
  }
  return "unknown";
}

}  // namespace fitstep
