// One test entry per rule of validate(): a good program with one fault, and a part of its message.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

// a writes y from x; b makes version 2 of y in place; c draws and has a pure form without y's mask.
constexpr std::string_view kGood = R"(fitstep program 1
call 0 "a"
storage 0 "x" 4 input start
storage 1 "y" 8 temporary
storage 2 "z" 8 temporary
storage 3 "generator" 16 generator start
op 0 "a" matmul source "net.0" "net.py" 12
form "default" call 0 pure reads 0.0 writes 1.1 requests 8@0-1=1 2@0-1
op 1 "b" activation
form "default" reads 1.1 writes 1.2
op 2 "c" random random
form "default" reads 1.2 3.0 writes 2.1<1 3.1
form "again" restores reads 1.2 3.0 writes 2.1
end calls 1 storages 4 ops 3
)";

Program good_program() { return parse_program(kGood).value(); }
Form& form_of(Program& program, size_t op, size_t form = 0) { return program.ops[op].forms[form]; }

struct Broken {
  std::string fault;
  std::function<void(Program&)> edit;
  std::string message;
};

const std::vector<Broken>& all_broken() {
  static const std::vector<Broken> broken = {
      {"NegativeSize", [](Program& p) { p.storages[1].size_bytes = -1; },
       "storage 1 (y) has -1 bytes; a size lies in 0 .. 2^52"},
      {"HugeSize", [](Program& p) { p.storages[1].size_bytes = (int64_t{1} << 52) + 1; },
       "storage 1 (y) has 4503599627370497 bytes"},
      {"NoPowerOfTwo", [](Program& p) { p.alignment_bytes = 96; },
       "the alignment is 96 bytes; it must be a power of two, at most 4096"},
      {"NoAlignment", [](Program& p) { p.alignment_bytes = 0; }, "the alignment is 0 bytes"},
      {"CoarseAlignment", [](Program& p) { p.alignment_bytes = 8192; },
       "the alignment is 8192 bytes"},
      {"NegativeSizeInACode", [](Program& p) { p.storages[1].zstd_bytes = -2; },
       "storage 1 (y) has -2 bytes in a code; a size lies in 0 .. 2^52"},
      {"HugeSizesTogether",
       [](Program& p) {
         p.storages.resize(9, {.size_bytes = int64_t{1} << 49});
         p.storages.resize(12, {.name = "last", .size_bytes = int64_t{1} << 50});
       },
       "the storages up to storage 10 (last) have more than 2^52 bytes together"},
      {"HugeRequestsTogether",
       [](Program& p) {
         const Request large{.size_bytes = int64_t{1} << 51, .live = {0, 1}};
         form_of(p, 0).requests = {large};
         form_of(p, 1).requests = {large};
       },
       "op 1 (b) form 0: storages and requests so far have more than 2^52 bytes"},
      {"DeathBeforeBirth", [](Program& p) { p.storages[2].recorded = {3, 2}; },
       "storage 2 (z) was recorded from tick 3 to 2"},
      {"OptionalOpThatOthersNeed",
       [](Program& p) {
         p.ops[0].is_optional = true;
         p.ops[1].forms[0].writes.clear();
         p.ops[2].forms.resize(1);
         p.ops[2].forms[0].reads.erase(p.ops[2].forms[0].reads.begin());
         p.ops[2].forms[0].writes[0].may_take = {};
       },
       "op 1 (b) form 0 reads storage 1 (y), which only an optional op makes"},
      {"OptionalOpThatRunsOnce", [](Program& p) { p.ops[2].is_optional = true; },
       "op 2 (c) form 0 is not pure; every form of an optional op must be"},
      {"OptionalOpInPlace",
       [](Program& p) {
         p.ops[1].is_optional = true;
         form_of(p, 1).is_pure = true;
       },
       "op 1 (b) form 0 writes storage 1 (y); an optional op may only write new temporary"},
      {"NoForm", [](Program& p) { p.ops[1].forms.clear(); }, "op 1 (b) has no form"},
      {"BadRepeat", [](Program& p) { p.ops[1].repeat = -2; }, "op 1 (b) belongs to repeat -2"},
      {"NegativeFlops", [](Program& p) { p.ops[1].flops = -3; }, "op 1 (b) has -3 flops"},
      {"NegativeBytes", [](Program& p) { p.ops[1].bytes = -3; }, "moves -3 bytes"},
      {"DefaultWithOtherBits", [](Program& p) { form_of(p, 0).has_equal_bits = false; },
       "op 0 (a, net.py:12): form 0 is the default"},
      {"NegativeTime", [](Program& p) { form_of(p, 2, 1).time_ps = -5; },
       "op 2 (c) form 1 takes -5 ps"},
      {"UnknownCall", [](Program& p) { form_of(p, 0).call = CallId(1); },
       "op 0 (a, net.py:12) form 0 has call 1 of 1"},
      {"ReadOutOfRange", [](Program& p) { form_of(p, 0).reads[0].storage = StorageId(4); },
       "form 0 reads storage 4; there are 4"},
      {"ReadOfNone", [](Program& p) { form_of(p, 0).reads[0].storage = StorageId(); },
       "form 0 reads storage -1; there are 4"},
      {"ReadOfTheFuture", [](Program& p) { form_of(p, 1).reads[0].version = 2; },
       "op 1 (b) form 0 reads version 2 of storage 1 (y), but the last one written there is 1"},
      {"ShapeReadOfTheFuture",
       [](Program& p) { form_of(p, 1).reads[0] = {StorageId(1), 2, ReadKind::ShapeOnly}; },
       "reads version 2 of storage 1 (y)"},
      {"ReadOfNegativeVersion", [](Program& p) { form_of(p, 1).reads[0].version = -1; },
       "reads version -1 of storage 1 (y)"},
      {"ReadWithoutContent", [](Program& p) { p.storages[0].has_content_at_start = false; },
       "reads version 0 of storage 0 (x), which has no content at start"},
      {"ReadOfTheOverwritten", [](Program& p) { form_of(p, 2).reads[0].version = 1; },
       "op 2 (c) form 0 reads version 1 of storage 1 (y), which version 2 has overwritten"},
      {"WriteOutOfRange", [](Program& p) { form_of(p, 0).writes[0].storage = StorageId(9); },
       "form 0 writes storage 9; there are 4"},
      {"SkippedVersion", [](Program& p) { form_of(p, 1).writes[0].version = 3; },
       "op 1 (b) form 0 writes version 3 of storage 1 (y); versions count up by one, to 2"},
      {"WrittenTwice", [](Program& p) { form_of(p, 0).writes.push_back(form_of(p, 0).writes[0]); },
       "form 0 writes storage 1 (y) twice"},
      {"RepeatableDraw", [](Program& p) { form_of(p, 2).is_pure = true; },
       "op 2 (c) form 0 may run again, but advances storage 3 (generator)"},
      {"TakesOutOfRange", [](Program& p) { form_of(p, 2).writes[0].may_take = StorageId(7); },
       "takes the address of storage 7"},
      {"TakesWhatItDoesNotRead",
       [](Program& p) { form_of(p, 2).writes[0].may_take = StorageId(0); },
       "lets storage 2 (z) take the address of storage 0 (x), which is not another input"},
      {"TakesItself", [](Program& p) { form_of(p, 1).writes[0].may_take = StorageId(1); },
       "lets storage 1 (y) take the address of storage 1 (y), which is not another input"},
      {"OtherFormWritesMore", [](Program& p) { form_of(p, 2, 1).writes[0] = {StorageId(0), 1}; },
       "op 2 (c) form 1 writes storage 0 (x), which form 0 does not"},
      {"OtherFormWritesLess", [](Program& p) { form_of(p, 2, 1).restores_generator = false; },
       "op 2 (c) form 1 is not pure and leaves out storage 3 (generator)"},
      {"NegativeRequest", [](Program& p) { form_of(p, 0).requests[1].size_bytes = -2; },
       "form 0 request 1 asks for -2 bytes"},
      {"EmptyRequest", [](Program& p) { form_of(p, 0).requests[1].live = {1, 1}; },
       "form 0 request 1 lives from 1 to 1, which is empty"},
      {"RequestBeforeTheKernel", [](Program& p) { form_of(p, 0).requests[1].live = {-1, 1}; },
       "form 0 request 1 lives from -1 to 1"},
      {"RequestOutOfRange", [](Program& p) { form_of(p, 0).requests[0].output = StorageId(4); },
       "requests storage 4; there are 4"},
      {"RequestOfWhatIsNotWritten",
       [](Program& p) { form_of(p, 0).requests[0].output = StorageId(2); },
       "form 0 request 0 becomes storage 2 (z), which the form does not write"},
      {"RequestedTwice", [](Program& p) { form_of(p, 0).requests[1].output = StorageId(1); },
       "form 0 request 1 becomes storage 1 (y), as an earlier one did"},
      {"RequestLargerThanItsStorage", [](Program& p) { form_of(p, 0).requests[0].size_bytes = 9; },
       "form 0 request 0 of 9 bytes becomes storage 1 (y), which has only 8"},
  };
  return broken;
}

class Validate : public testing::TestWithParam<Broken> {};

TEST_P(Validate, NamesTheFault) {
  Program program = good_program();
  ASSERT_TRUE(validate(program).has_value());
  GetParam().edit(program);
  const Status status = validate(program);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::BadInput);
  EXPECT_NE(status.error().message.find(GetParam().message), std::string::npos)
      << status.error().message;
}

INSTANTIATE_TEST_SUITE_P(Rules, Validate, testing::ValuesIn(all_broken()),
                         [](const auto& entry) { return entry.param.fault; });

TEST(Validate, AcceptsZeroBytesAndGeometryWithoutContent) {
  Program program = good_program();
  program.storages[2].size_bytes = 0;
  form_of(program, 0).reads.push_back({StorageId(2), 0, ReadKind::ShapeOnly});
  EXPECT_TRUE(validate(program).has_value());
}

TEST(LastVersions, CountsTheWritesOfEveryStorage) {
  EXPECT_EQ(last_versions(good_program()), (std::vector<int32_t>{0, 2, 1, 1}));
}

}  // namespace
}  // namespace fitstep
