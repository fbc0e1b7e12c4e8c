// NetMaker adds the ops of a net one after another, with times from a simple roofline model. It
// tracks the version of every storage, so that nets read like code.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

class NetMaker {
 public:
  explicit NetMaker(std::string name);

  StorageId add(const std::string& name, StorageKind kind, int64_t floats);
  StorageId add_bytes(const std::string& name, StorageKind kind, int64_t size_bytes);
  StorageId temporary(const std::string& name, int64_t floats);

  // Writes that also stand among the reads are in place.
  Op& op(const std::string& name, OpKind kind, const std::vector<StorageId>& reads,
         const std::vector<StorageId>& writes, int64_t flops = 0);

  void add_scratch(Op& op, int64_t size_bytes);

  // A second form that leaves out the last reads and writes: those of the generator, or of running
  // statistics.
  void add_quiet_form(Op& op, size_t reads, size_t writes, bool restores);

  // Gradient to be used by update_all().
  StorageId gradient_of(StorageId weight);

  // Per weight an update with `states` storages of optimizer state, by ops in place and one
  // temporary, as foreach optimizers run them.
  void update_all(int states);

  Program take() &&;

  int64_t size_bytes(StorageId storage) const {
    return program_.storages[storage.index()].size_bytes;
  }
  int64_t floats(StorageId storage) const { return size_bytes(storage) / 4; }

 private:
  Program program_;
  std::vector<int32_t> version_;  // By storage.
  std::vector<std::pair<StorageId, StorageId>> gradients_;
};

}  // namespace fitstep
