#include "fitstep/planner/values/dependences.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int32_t kNoOp = -1;

// The ops that write and read one version.
struct Users {
  int32_t maker = kNoOp;
  std::vector<int32_t> readers;  // Of its bytes.
};

using UsersOfStorages = std::vector<std::vector<Users>>;  // By storage and version.

// The output of an optional op is read by forms other than the default. The optional op must run
// before the ops with such forms.
void add_optional_reads(const Program& program, const Op& op, int32_t reader,
                        UsersOfStorages& users) {
  for (const Form& form : op.forms) {
    if (&form == &op.forms[0]) continue;
    for (const Read& read : form.reads) {
      if (read.kind == ReadKind::ShapeOnly) continue;
      Users& of = users[read.storage.index()][static_cast<size_t>(read.version)];
      const bool is_packed =
          of.maker != kNoOp && program.ops[static_cast<size_t>(of.maker)].is_optional;
      if (is_packed && std::ranges::count(of.readers, reader) == 0) of.readers.push_back(reader);
    }
  }
}

UsersOfStorages find_users(const Program& program) {
  const std::vector<int32_t> last = last_versions(program);
  UsersOfStorages users(program.storages.size());
  for (size_t i = 0; i < users.size(); ++i) users[i].resize(static_cast<size_t>(last[i]) + 1);
  const auto of = [&](StorageId storage, int32_t version) -> Users& {
    return users[storage.index()][static_cast<size_t>(version)];
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Form& form = program.ops[i].forms[0];
    const auto op = static_cast<int32_t>(i);
    for (const Read& read : form.reads) {
      if (read.kind != ReadKind::ShapeOnly) of(read.storage, read.version).readers.push_back(op);
    }
    for (const Write& write : form.writes) of(write.storage, write.version).maker = op;
    add_optional_reads(program, program.ops[i], op, users);
  }
  return users;
}

void add(int32_t first, int32_t then, Dependences& dependences) {
  if (first == kNoOp || then == kNoOp || first == then) return;
  dependences.followers[static_cast<size_t>(first)].push_back(then);
  ++dependences.blocked_by[static_cast<size_t>(then)];
}

void add_version(const Users& users, int32_t next_maker, Dependences& dependences) {
  add(users.maker, next_maker, dependences);
  for (const int32_t reader : users.readers) {
    add(users.maker, reader, dependences);
    add(reader, next_maker, dependences);
    if (users.maker == kNoOp) continue;
    dependences.consumers[static_cast<size_t>(users.maker)].push_back(reader);
  }
}

}  // namespace

Dependences find_dependences(const Program& program) {
  const size_t count = program.ops.size();
  Dependences dependences{.followers = std::vector<std::vector<int32_t>>(count),
                          .blocked_by = std::vector<int32_t>(count, 0),
                          .consumers = std::vector<std::vector<int32_t>>(count)};
  for (const std::vector<Users>& versions : find_users(program)) {
    for (size_t i = 0; i < versions.size(); ++i) {
      add_version(versions[i], i + 1 < versions.size() ? versions[i + 1].maker : kNoOp,
                  dependences);
    }
  }
  int32_t barrier = kNoOp;
  for (size_t i = 0; i < count; ++i) {
    if (!program.ops[i].must_not_move) continue;
    add(barrier, static_cast<int32_t>(i), dependences);
    barrier = static_cast<int32_t>(i);
  }
  return dependences;
}

}  // namespace fitstep
