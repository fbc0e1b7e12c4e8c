// Checks the program files of benchmarks/programs/ as a user reads them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fitstep/program/liveness.h"
#include "fitstep/program/packed.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  const std::filesystem::path folder =
      std::filesystem::path(FITSTEP_SOURCE_DIR) / "benchmarks" / "programs";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".zst") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Program load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse_program(unpack(bytes).value()).value();  // Parsing validates.
}

bool is_product(const Op& op) {
  return op.kind == OpKind::Convolution || op.kind == OpKind::Matmul ||
         op.kind == OpKind::Attention;
}

TEST(Collection, IsValidAndNamedByItsFiles) {
  EXPECT_GE(files().size(), 15U);
  for (const auto& path : files()) {
    const Program program = load(path);
    EXPECT_EQ(program.name + ".program.zst", path.filename().string());
    EXPECT_GT(plain_peak_bytes(program), 0) << path;
  }
}

TEST(Collection, CountsFlopsOfEveryProduct) {
  for (const auto& path : files()) {
    for (const Op& op : load(path).ops)
      EXPECT_EQ(op.flops > 0, is_product(op)) << path << " " << op.name;
  }
}

// At least what it writes, but for ops that leave memory as it is.
TEST(Collection, CountsBytesOfEveryOpThatWritesAny) {
  for (const auto& path : files()) {
    const Program program = load(path);
    for (const Op& op : program.ops) {
      if (op.name.starts_with("aten::empty")) {
        EXPECT_EQ(op.bytes, 0) << path << " " << op.name;
        continue;
      }
      int64_t results = 0;  // New ones; a write into part of a storage moves less.
      for (const Write& write : op.forms.front().writes) {
        const Storage& storage = program.storages[write.storage.index()];
        if (write.version == 1 && !storage.has_content_at_start) results += storage.size_bytes;
      }
      EXPECT_GE(op.bytes, results) << path << " " << op.name;
    }
  }
}

TEST(Collection, HoldsNothingThatDependsOnTheMachineThatWroteIt) {
  for (const auto& path : files()) {
    for (const Op& op : load(path).ops) {
      EXPECT_FALSE(op.source.file.starts_with("/")) << path << " " << op.source.file;
      for (const Form& form : op.forms) {
        EXPECT_EQ(form.time_ps, 0) << path << " " << op.name;
        EXPECT_TRUE(form.requests.empty()) << path << " " << op.name;
      }
    }
  }
}

TEST(Collection, LetsMostOfEveryForwardPassRunAgain) {
  for (const auto& path : files()) {
    const Program program = load(path);
    const auto again = std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) {
      return std::any_of(op.forms.begin(), op.forms.end(),
                         [](const Form& form) { return form.is_pure || form.restores_generator; });
    });
    EXPECT_GT(again, static_cast<int64_t>(program.ops.size()) / 5) << path;
  }
}

}  // namespace
}  // namespace fitstep
