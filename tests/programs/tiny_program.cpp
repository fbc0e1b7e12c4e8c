#include "tests/programs/tiny_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
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

class TinyMaker {
 public:
  TinyMaker(uint64_t seed, const TinyProgramOptions& options) : random_(seed), options_(options) {
    program_.name = fmt::format("tiny-{}", seed);
    program_.calls.push_back({.text = "call"});
  }

  Program run() {
    weight_ = add_storage("w", StorageKind::Parameter, size(3));
    program_.storages[weight_.index()].is_persistent = true;
    program_.storages[weight_.index()].has_content_at_start = true;
    const int64_t count = number(options_.most_ops - 3, options_.most_ops);
    const int64_t update = chance(25) ? number(1, count - 1) : count;
    for (int64_t i = 0; i < count; ++i) {
      if (i == update) {
        add_update();
      } else {
        add_op(i, i * 2 >= count);
      }
    }
    if (options_.trades_scratch) {
      for (Op& op : program_.ops) trade_scratch(op);
    }
    const Status status = validate(program_);
    FITSTEP_CHECK(status.has_value(), status.error().message);
    return std::move(program_);
  }

 private:
  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.next() % static_cast<uint64_t>(high - low + 1));
  }
  int64_t size(int64_t most) { return number(1, most) * options_.unit_bytes; }
  bool chance(int64_t percent) { return number(1, 100) <= percent; }

  StorageId add_storage(const std::string& name, StorageKind kind, int64_t size_bytes) {
    program_.storages.push_back({.name = name, .size_bytes = size_bytes, .kind = kind});
    version_.push_back(0);
    return StorageId(program_.storages.size() - 1);
  }

  Read read(StorageId storage) const {
    return {.storage = storage, .version = version_[storage.index()]};
  }

  void finish(Op op) {
    for (const Write& write : op.forms[0].writes) version_[write.storage.index()] = write.version;
    program_.ops.push_back(std::move(op));
  }

  Op make_op(const std::string& name) {
    Op op{.name = name};
    op.forms.push_back({.call = CallId(0), .time_ps = number(1, 3) * kPicosecondsPerSecond});
    op.forms[0].is_pure = chance(85);
    return op;
  }

  void add_update() {
    Op op = make_op("update_");
    op.forms[0].is_pure = false;
    op.forms[0].reads = {read(weight_)};
    op.forms[0].writes = {{weight_, version_[weight_.index()] + 1, {}}};
    finish(std::move(op));
  }

  // What came last, and in the second half mostly what the first half saved, latest first.
  std::vector<size_t> choose_inputs(bool is_back) {
    std::vector<size_t> inputs;
    if (current_.empty()) return inputs;
    if (chance(85)) inputs.push_back(current_.size() - 1);
    if (is_back && chance(85) && next_saved_ > 0) inputs.push_back(--next_saved_);
    if (inputs.empty() || chance(15)) {
      inputs.push_back(static_cast<size_t>(number(0, static_cast<int64_t>(current_.size()) - 1)));
    }
    std::ranges::sort(inputs);
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    return inputs;
  }

  void add_op(int64_t index, bool is_back) {
    Op op = make_op(fmt::format("op{}", index));
    Form& form = op.forms[0];
    if (!is_back) next_saved_ = current_.size();
    const std::vector<size_t> inputs = choose_inputs(is_back);
    for (const size_t input : inputs) {
      form.reads.push_back(read(current_[input]));
    }
    if (chance(25)) form.reads.push_back(read(weight_));
    if (!inputs.empty() && chance(15)) {  // In place.
      const StorageId storage = current_[inputs.front()];
      form.writes.push_back({storage, version_[storage.index()] + 1, {}});
    } else {
      add_outputs(index, inputs, form);
    }
    if (chance(15)) {
      form.requests.push_back({.size_bytes = size(2), .live = {.begin = 0, .end = 1}});
    }
    maybe_add_form(op);
    finish(std::move(op));
  }

  void add_outputs(int64_t index, const std::vector<size_t>& inputs, Form& form) {
    const int64_t outputs = chance(20) ? 2 : 1;
    for (int64_t i = 0; i < outputs; ++i) {
      if (static_cast<int32_t>(current_.size()) >= options_.most_values) break;
      int64_t size_bytes = size(4);
      StorageId taken;
      if (i == 0 && !inputs.empty() && chance(20)) {
        taken = current_[inputs.front()];
        if (chance(80)) size_bytes = program_.storages[taken.index()].size_bytes;
      }
      const StorageId storage =
          add_storage(fmt::format("v{}.{}", index, i), StorageKind::Temporary, size_bytes);
      form.writes.push_back({storage, 1, taken});
      current_.push_back(storage);
    }
  }

  void maybe_add_form(Op& op) {
    if (!chance(15)) return;
    Form form = op.forms[0];
    form.name = "other";
    form.time_ps = number(1, 3) * kPicosecondsPerSecond;
    form.is_pure = chance(50);
    form.has_equal_bits = chance(80);
    if (form.reads.size() > 1 && chance(30)) form.reads.pop_back();
    op.forms.push_back(std::move(form));
  }

  // Instead of the other forms that the op may have: slower with less scratch or faster with more,
  // and now and then one that need not read all. Some may run again where the default may not.
  void trade_scratch(Op& op) {
    op.forms.resize(1);
    if (!chance(50)) return;
    const int64_t count = chance(30) ? 2 : 1;
    for (int64_t i = 0; i < count; ++i) {
      Form form = op.forms[0];
      form.name = fmt::format("other{}", i);
      form.time_ps = number(1, 4) * kPicosecondsPerSecond;
      form.requests.clear();
      if (const int64_t scratch = number(0, 3); scratch > 0) {
        form.requests.push_back(
            {.size_bytes = scratch * options_.unit_bytes, .live = {.begin = 0, .end = 1}});
      }
      if (chance(15)) form.is_pure = !form.is_pure && op.name != "update_";
      form.has_equal_bits = chance(90);
      const bool needs_last = !form.writes.empty() && !form.writes.front().may_take.is_none();
      if (form.reads.size() > 1 && !needs_last && chance(20)) form.reads.pop_back();
      op.forms.push_back(std::move(form));
    }
  }

  Random random_;
  TinyProgramOptions options_;
  Program program_;
  StorageId weight_;
  std::vector<int32_t> version_;    // By storage.
  std::vector<StorageId> current_;  // What may be read, in order of birth.
  size_t next_saved_ = 0;  // What lies below this in current_ has not been read in reverse.
};

}  // namespace

Program tiny_program(uint64_t seed, const TinyProgramOptions& options) {
  return TinyMaker(seed, options).run();
}

}  // namespace fitstep
