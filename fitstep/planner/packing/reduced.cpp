#include "fitstep/planner/packing/reduced.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/orders.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

constexpr int32_t kNobody = -1;

// By storage, the optional op that makes it, or kNobody.
std::vector<int32_t> optional_makers(const Program& program) {
  std::vector<int32_t> maker(program.storages.size(), kNobody);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!program.ops[i].is_optional) continue;
    for (const Write& write : program.ops[i].forms[0].writes) {
      maker[write.storage.index()] = static_cast<int32_t>(i);
    }
  }
  return maker;
}

bool reads_bytes(const Read& read) { return read.kind != ReadKind::ShapeOnly; }

// How many of the form's reads are outputs of optional ops; kNobody if one of these does not run.
int32_t packed_reads(const Form& form, const std::vector<int32_t>& maker,
                     const std::vector<char>& runs) {
  int32_t count = 0;
  for (const Read& read : form.reads) {
    const int32_t op = maker[read.storage.index()];
    if (op == kNobody || !reads_bytes(read)) continue;
    if (runs[static_cast<size_t>(op)] == 0) return kNobody;
    ++count;
  }
  return count;
}

// The forms that read most outputs of running optional ops; those for a first run come first.
std::vector<int32_t> most_packed(const Op& op, const std::vector<int32_t>& maker,
                                 const std::vector<char>& runs) {
  const auto may_be_first = [&](const Form& form) {
    return is_usable(op, form) && !form.restores_generator;
  };
  int32_t most = 0;
  for (const Form& form : op.forms) {
    if (may_be_first(form)) most = std::max(most, packed_reads(form, maker, runs));
  }
  std::vector<int32_t> forms;
  for (size_t i = 0; i < op.forms.size(); ++i) {
    if (packed_reads(op.forms[i], maker, runs) == most) forms.push_back(static_cast<int32_t>(i));
  }
  std::ranges::stable_partition(
      forms, [&](int32_t form) { return may_be_first(op.forms[static_cast<size_t>(form)]); });
  return forms;
}

// Whether some form of the op reads what an optional op makes.
bool may_read(const Op& op, const std::vector<Write>& made) {
  return std::ranges::any_of(op.forms, [&](const Form& form) {
    return std::ranges::any_of(form.reads, [&](const Read& read) {
      return reads_bytes(read) && std::ranges::count(made, read.storage, &Write::storage) > 0;
    });
  });
}

// Whether the op's default form reads or makes one of the versions that `packer` reads.
bool touches_input_of(const Form& packer, const Form& form) {
  return std::ranges::any_of(packer.reads, [&](const Read& input) {
    if (!reads_bytes(input)) return false;
    const bool is_read = std::ranges::any_of(form.reads, [&](const Read& read) {
      return reads_bytes(read) && read.storage == input.storage && read.version == input.version;
    });
    return is_read || std::ranges::any_of(form.writes, [&](const Write& write) {
             return write.storage == input.storage && write.version == input.version;
           });
  });
}

// Whether the op overwrites what `packer` reads.
bool ends_input_of(const Form& packer, const Form& form) {
  return std::ranges::any_of(packer.reads, [&](const Read& input) {
    return reads_bytes(input) && std::ranges::any_of(form.writes, [&](const Write& write) {
             return write.storage == input.storage && write.version > input.version;
           });
  });
}

// The position in `order` for the optional op: see order_with_optional().
size_t place_for(const Program& program, const std::vector<OpId>& order, const Op& packer) {
  size_t place = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Op& op = program.ops[order[i].index()];
    if (may_read(op, packer.forms[0].writes) || ends_input_of(packer.forms[0], op.forms[0])) break;
    if (touches_input_of(packer.forms[0], op.forms[0])) place = i + 1;
  }
  return place;
}

}  // namespace

std::vector<OpId> optional_ops(const Program& program) {
  std::vector<OpId> found;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].is_optional) found.emplace_back(i);
  }
  return found;
}

std::vector<OpId> order_with_optional(const Program& program) {
  const std::vector<OpId> optional = optional_ops(program);
  if (optional.empty()) return make_order(program);
  std::vector<OpId> given;
  given.reserve(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) given.emplace_back(i);
  const Reduced plain = reduce(program, given, {});
  std::vector<OpId> order;
  order.reserve(given.size());
  for (const OpId op : make_order(plain.program)) order.push_back(plain.op_of[op.index()]);
  for (const OpId op : optional) {
    const size_t place = place_for(program, order, program.ops[op.index()]);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), op);
  }
  return order;
}

Reduced reduce(const Program& program, std::span<const OpId> order, std::span<const OpId> running) {
  const std::vector<int32_t> maker = optional_makers(program);
  std::vector<char> runs(program.ops.size(), 0);
  for (const OpId op : running) runs[op.index()] = 1;
  Reduced reduced;
  reduced.program.name = program.name;
  reduced.program.alignment_bytes = program.alignment_bytes;
  reduced.program.storages = program.storages;
  reduced.program.calls = program.calls;
  std::vector<int32_t> reduced_op(program.ops.size(), kNobody);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& from = program.ops[i];
    if (from.is_optional && runs[i] == 0) continue;
    Op op = from;
    op.is_optional = false;
    op.forms.clear();
    reduced.form_of.push_back(most_packed(from, maker, runs));
    for (const int32_t form : reduced.form_of.back()) {
      op.forms.push_back(from.forms[static_cast<size_t>(form)]);
    }
    reduced_op[i] = static_cast<int32_t>(reduced.op_of.size());
    reduced.op_of.emplace_back(i);
    reduced.program.ops.push_back(std::move(op));
  }
  for (const OpId op : order) {
    const int32_t is_here = reduced_op[op.index()];
    if (is_here != kNobody) reduced.order.emplace_back(is_here);
  }
  return reduced;
}

Plan translate(const Program& whole, const Reduced& reduced, Plan plan) {
  for (Action& action : plan.lane(Lane::Compute)) {
    if (action.kind != Action::Kind::Run) continue;
    Run& run = action.run;
    run.form = reduced.form_of[run.op.index()][static_cast<size_t>(run.form)];
    run.op = reduced.op_of[run.op.index()];
  }
  plan.program_hash = hash_program(whole);
  return plan;
}

}  // namespace fitstep
