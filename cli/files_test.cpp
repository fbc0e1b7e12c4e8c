// Files as the verbs see them.
#include "cli/files.h"

#include <gtest/gtest.h>

#include <string>

#include "fitstep/program/packed.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/pyramid.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

TEST(Files, ReadPackedProgramsByTheirContent) {
  const std::string path = write_file("pyramid.program.zst", pack(kPyramid));
  const Program expected = parse_program(kPyramid).value();
  EXPECT_EQ(load_program(path).value(), expected);
  EXPECT_EQ(std::get<Program>(load_any(path).value()), expected);
}

TEST(Files, NameTheFileThatCannotBeUnpacked) {
  const std::string path = write_file("cut.program.zst", pack(kPyramid).substr(0, 50));
  EXPECT_EQ(load_program(path).error().message, path + ": cannot unpack the file: it is cut off");
}

}  // namespace
}  // namespace fitstep
