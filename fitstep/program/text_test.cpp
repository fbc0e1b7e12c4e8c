#include "fitstep/program/text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/program/program.h"
#include "tests/programs/pyramid.h"

namespace fitstep {
namespace {

// Every field of every record away from its default.
Program full_program() {
  Program program{.name = "a \"quoted\" name\\\n\t\x01 \xc3\xa9"};
  program.alignment_bytes = 512;
  program.calls = {Call{"aten::f(Tensor x) -> Tensor"}, Call{""}};
  for (int i = 0; i <= static_cast<int>(StorageKind::Generator); ++i) {
    program.storages.push_back(Storage{.name = "s",
                                       .size_bytes = 64 * i,
                                       .kind = static_cast<StorageKind>(i),
                                       .is_persistent = i % 2 == 0,
                                       .is_visible = i % 3 == 0,
                                       .has_content_at_start = i != 1,
                                       .recorded = {i, i + 2},
                                       .zero_value_bytes = 32 * (i % 3),
                                       .zstd_bytes = i % 2});
  }
  for (int i = 0; i <= static_cast<int>(OpKind::Other); ++i) {
    Op op{.name = "aten::f",
          .source = {.module = "net.0", .file = "dir name/net.py", .line = 7},
          .kind = static_cast<OpKind>(i),
          .repeat = i - 1,
          .is_random = i % 2 == 0,
          .must_not_move = i % 3 == 0,
          .flops = i,
          .bytes = 2 * i};
    Form form{.name = "default", .call = CallId(0), .time_ps = i};
    form.reads = {Read{StorageId(2), 0, ReadKind::SignOnly},
                  Read{StorageId(3), 0, ReadKind::BoundedInteger},
                  Read{StorageId(1), 0, ReadKind::ShapeOnly}};
    form.writes = {Write{StorageId(1), i + 1, StorageId(2)}};
    form.requests = {Request{64, {0, 2}, StorageId(1), false}, Request{3, {1, 4}, {}, true}};
    op.forms = {form, form, form};
    op.forms[1].is_pure = true;
    op.forms[2].restores_generator = true;
    op.forms[2].has_equal_bits = false;
    program.ops.push_back(op);
  }
  return program;
}

TEST(Text, KeepsThatAnOpIsOptional) {
  Program program{.name = "optional"};
  program.storages = {{.name = "y", .size_bytes = 64, .has_content_at_start = true},
                      {.name = "m", .size_bytes = 2}};
  program.ops = {{.name = "pack", .kind = OpKind::Copy, .is_optional = true}};
  program.ops[0].forms = {{.is_pure = true}};
  program.ops[0].forms[0].reads = {{.storage = StorageId(0), .version = 0}};
  program.ops[0].forms[0].writes = {{StorageId(1), 1, {}}};
  const std::string text = print_program(program);
  EXPECT_NE(text.find("op 0 \"pack\" copy optional\n"), std::string::npos);
  const Result<Program> parsed = parse_program(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed.value(), program);
  Program other = program;
  other.ops[0].is_optional = false;
  EXPECT_NE(hash_program(other), hash_program(program));
}

TEST(Text, KeepsEveryField) {
  const Program program = full_program();
  const Result<Program> parsed = parse_program(print_program(program));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, program);
}

TEST(Text, OfThePyramidIsWhatPeopleWrite) {
  EXPECT_EQ(print_program(parse_program(kPyramid).value()), kPyramid);
}

TEST(Text, AllowsCommentsBlankLinesAndCarriageReturns) {
  std::string text;
  for (const char letter : kPyramid) {
    if (letter == '\n') text += "\r\n\r\n  # a comment\r";
    text += letter;
  }
  text.replace(text.find("\r\n"), 0, "");
  const Result<Program> parsed = parse_program(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, parse_program(kPyramid).value());
}

// However many bytes are missing, it is an error; and at no length is it a crash.
TEST(Text, RefusesAFileThatIsCutOffAnywhere) {
  for (const std::string& text : {std::string(kPyramid), print_program(full_program())}) {
    for (size_t length = 0; length + 1 < text.size(); ++length) {
      EXPECT_FALSE(parse_program(std::string_view(text).substr(0, length)).has_value()) << length;
    }
  }
}

// The pyramid with one piece replaced, and what the error must say.
struct Edit {
  std::string from;
  std::string to;
  std::string message;
};

TEST(Text, NamesLineAndWordOfAFault) {
  const std::vector<Edit> edits = {
      {"fitstep program 1", "fitstep plan 1", "line 1 is not \"fitstep program 1\""},
      {"fitstep program 1", "fitstep program 2", "it has format 2, and this fitstep reads"},
      {"name \"pyramid\"", "name pyramid", "line 2, word 2 (pyramid): expected the program's name"},
      {"name \"pyramid\"", "name \"pyramid", "line 2, word 2 (\"pyramid): the program's name has"},
      {"name \"pyramid\"", "name \"pyr\\amid\"", "line 2, word 2 (\"pyr\\amid\"): an escape is"},
      {"name \"pyramid\"", "name \"pyramid\"x", "line 2, word 2 (\"pyramid\"x): expected a blank"},
      {"name \"pyramid\"", "title \"pyramid\"", "line 2, word 1 (title): expected one of name,"},
      {"storage 0", "storage 1", "line 3, word 2 (1): ids count up by one; expected 0"},
      {"\"x\" 1 input", "\"x\" one input", "line 3, word 4 (one): expected its bytes"},
      {"\"x\" 1 input", "\"x\" 99999999999999999999 input", "word 4 (99999999999999999999): its"},
      {"\"x\" 1 input", "\"x\" 1 imput", "line 3, word 5 (imput): this is not a storage's kind"},
      {"start recorded 0-6", "recorded 0-6 start", "line 3, word 8 (start): unexpected, misplaced"},
      {"recorded 0-6\n", "recorded 0:6\n", "line 3, word 8 (0:6): expected '-' in ticks"},
      {"recorded 0-6\n", "recorded\n", "line 3, at its end: expected the first tick"},
      {"recorded 0-6\n", "recorded 6-0\n", "line 3: invalid program: storage 0 (x) was recorded"},
      {"\"f0\" matmul", "\"f0\" matmull", "line 10, word 4 (matmull): this is not an op's kind"},
      {"reads 0.0", "reads 0", "line 11, word 7 (0): expected '.' in a read such as 3.1"},
      {"reads 0.0", std::string("reads 0\0.0", 10), "line 11, word 7 (0?.0): expected '.'"},
      {"reads 0.0", "reads 0.0:colour", "line 11, word 7 (0.0:colour): this is not a read's kind"},
      {"reads 0.0", "reads 99999999999999999999.0", "a storage does not fit 64 bits"},
      {"reads 0.0", "reads -", "line 11, word 7 (-): expected a storage, a whole number"},
      {"writes 1.1", "writes -.1", "line 11, word 9 (-.1): expected a storage, a whole number"},
      {"writes 1.1\n", "writes 1.1 requests -\n", "word 11 (-): expected its bytes, a whole"},
      {"reads 0.0", "reads 3000000000.0", "(3000000000.0): a storage does not fit 32 bits"},
      {"reads 0.0", "reads 17.0", "line 11: invalid program: op 0 (f0) form 0 reads storage 17;"},
      {"\"f1\" matmul", "\"f1\" matmul repeat -2", "line 12: invalid program: op 1 (f1) belongs"},
      {"writes 1.1\n", "writes 1.1 requests 4\n", "line 11, word 11 (4): expected '@'"},
      {"op 0 \"f0\" matmul\n", "", "line 10, word 1 (form): a form needs an op"},
      {"op 1 \"f1\" matmul\n", "", "line 13, word 2 (2): ids count up by one; expected 1"},
      {"ops 6", "ops 7", "line 22, word 7 (7): the file has 6 ops"},
      {"end calls", "end cells", "line 22, word 2 (cells): expected \"calls\" and their number"},
      {"ops 6\n", "ops 6\nname \"x\"\n", "line 23, word 1 (name): no record may follow the end"},
  };
  for (const Edit& edit : edits) {
    std::string text(kPyramid);
    const size_t place = text.find(edit.from);
    ASSERT_NE(place, text.npos) << edit.from;
    text.replace(place, edit.from.size(), edit.to);
    const Result<Program> parsed = parse_program(text);
    ASSERT_FALSE(parsed.has_value()) << edit.to;
    EXPECT_EQ(parsed.error().code, ErrorCode::BadInput);
    EXPECT_NE(parsed.error().message.find(edit.message), std::string::npos)
        << "wanted: " << edit.message << "\ngot:    " << parsed.error().message;
  }
}

TEST(HashProgram, DependsOnWhatAPlanDependsOn) {
  const Program program = full_program();
  const std::string hash = hash_program(program);
  EXPECT_EQ(hash.size(), 16);
  const std::vector<std::function<void(Program&)>> harmless = {
      [](Program& p) { p.name = "other"; },
      [](Program& p) { p.storages[2].name = "other"; },
      [](Program& p) { p.storages[2].recorded = {0, 9}; },
      [](Program& p) { p.ops[1].name = "other"; },
      [](Program& p) { p.ops[1].source.line = 99; },
      [](Program& p) { p.ops[1].flops = 99; },
      [](Program& p) { p.ops[1].forms[0].time_ps = 99; },
      [](Program& p) { p.ops[1].forms[0].name = "other"; },
  };
  for (size_t i = 0; i < harmless.size(); ++i) {
    Program other = program;
    harmless[i](other);
    EXPECT_NE(other, program) << i;
    EXPECT_EQ(hash_program(other), hash) << i;
  }
  const std::vector<std::function<void(Program&)>> decisive = {
      [](Program& p) { p.alignment_bytes = 256; },
      [](Program& p) { p.alignment_bytes = kAlignmentBytes; },
      [](Program& p) { p.storages[2].size_bytes += 1; },
      [](Program& p) { p.storages[2].kind = StorageKind::Buffer; },
      [](Program& p) { p.storages[2].is_persistent ^= true; },
      [](Program& p) { p.storages[2].is_visible ^= true; },
      [](Program& p) { p.storages[2].has_content_at_start ^= true; },
      [](Program& p) { p.storages.push_back(Storage{}); },
      [](Program& p) { p.ops.pop_back(); },
      [](Program& p) { std::swap(p.ops[1], p.ops[2]); },
      [](Program& p) { p.ops[1].kind = OpKind::Copy; },
      [](Program& p) { p.ops[1].repeat = 9; },
      [](Program& p) { p.ops[1].is_random ^= true; },
      [](Program& p) { p.ops[1].must_not_move ^= true; },
      [](Program& p) { p.calls[0].text += "x"; },
      [](Program& p) { p.ops[1].forms[1].call = CallId(); },
      [](Program& p) { p.ops[1].forms.pop_back(); },
      [](Program& p) { p.ops[1].forms[1].is_pure ^= true; },
      [](Program& p) { p.ops[1].forms[1].restores_generator ^= true; },
      [](Program& p) { p.ops[1].forms[1].has_equal_bits ^= true; },
      [](Program& p) { p.ops[1].forms[1].reads[0].storage = StorageId(4); },
      [](Program& p) { p.ops[1].forms[1].reads[0].version = 4; },
      [](Program& p) { p.ops[1].forms[1].reads[0].kind = ReadKind::Data; },
      [](Program& p) { p.ops[1].forms[1].reads.pop_back(); },
      [](Program& p) { p.ops[1].forms[1].writes[0].storage = StorageId(4); },
      [](Program& p) { p.ops[1].forms[1].writes[0].version = 4; },
      [](Program& p) { p.ops[1].forms[1].writes[0].may_take = StorageId(); },
      [](Program& p) { p.ops[1].forms[1].requests[0].size_bytes = 4; },
      [](Program& p) { p.ops[1].forms[1].requests[0].live.begin = 1; },
      [](Program& p) { p.ops[1].forms[1].requests[0].live.end = 7; },
      [](Program& p) { p.ops[1].forms[1].requests[0].output = StorageId(); },
      [](Program& p) { p.ops[1].forms[1].requests[0].is_any_thread ^= true; },
  };
  for (size_t i = 0; i < decisive.size(); ++i) {
    Program other = program;
    decisive[i](other);
    EXPECT_NE(hash_program(other), hash) << i;
  }
}

// Work is counted (records and bytes), time is printed: it depends on who else uses the machine.
TEST(Text, LoadsAHundredThousandOps) {
  constexpr int kOps = 100'000;
  Program program{.name = "long", .calls = {Call{"aten::addmm(Tensor self, Tensor a, Tensor b)"}}};
  program.storages.push_back(Storage{.name = "x", .size_bytes = 64, .has_content_at_start = true});
  for (int i = 0; i < kOps; ++i) {
    program.storages.push_back(Storage{.name = "a", .size_bytes = 64, .recorded = {i, i + 2}});
    Op op{.name = "aten::addmm", .source = {"layers.0", "net.py", 12}, .kind = OpKind::Matmul};
    Form form{.call = CallId(0), .time_ps = 1'234'567};
    form.reads = {Read{StorageId(i), i == 0 ? 0 : 1}};
    form.writes = {Write{StorageId(i + 1), 1}};
    form.requests = {Request{64, {0, 1}, StorageId(i + 1)}};
    op.forms = {form};
    program.ops.push_back(op);
  }
  const std::string text = print_program(program);
  const auto begin = std::chrono::steady_clock::now();
  const Result<Program> parsed = parse_program(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->ops.size(), size_t{kOps});
  EXPECT_LT(text.size(), size_t{kOps} * 200);  // An op, its form and its storage are three lines.
  std::printf("%d ops, %zu bytes, loaded in %.3f s\n", kOps, text.size(), seconds.count());
}

}  // namespace
}  // namespace fitstep
