// A program is one training step as data: its storages, and its ops in execution order.
//
// A storage is memory shared by aliasing tensors. Each write makes a new version of it; version 0
// is its content when the step starts (persistent storages, inputs and constants have one). A view
// is not an op: reads and writes name storages. The running example of all headers and tests is the
// activation pyramid, here a two-layer net whose forward ops save what the backward ops read:
//
//   bytes
//     3 |         +-- a2 ---+
//     2 |    +------- a1 --------+
//     1 +------------ a0 -------------+
//       +----+----+----+----+----+----+--> tick
//         f0   f1   f2   b2   b1   b0
//
// Random numbers are data too: a generator is a storage whose content is its state. An op that
// draws reads version k of it and writes version k + 1.
//
// What some form reads instead of a larger storage is made by an optional op, which plain PyTorch
// does not run: here `pack`, whose m says of each element of y on which side of zero it is. Either
// b reads y, or pack and the other form of b run:
//
//   f --> y -----------------> b      default: reads the signs of y
//          \--> pack --> m --->'      "from sign bits": reads m, 1/32 of the bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/result.h"

namespace fitstep {

enum class StorageKind {
  Parameter,
  Gradient,
  OptimizerState,
  Buffer,     // A module's non-trainable tensor.
  Input,      // The caller's; we give it no address.
  Output,     // Handed to the caller; we give it no address.
  Constant,   // A literal or a closed-over tensor; stays where it is.
  Temporary,  // Made and used inside one step.
  Generator,  // State of a random number generator; lives outside the arena.
};

struct Storage {
  std::string name;
  int64_t size_bytes = 0;  // 0 is legal and needs no address.
  StorageKind kind = StorageKind::Temporary;
  bool is_persistent = false;         // Lives from step to step, in its home.
  bool is_visible = false;            // Python can reach it between steps.
  bool has_content_at_start = false;  // Version 0 exists and may be read.
  Interval recorded;                  // Ticks at which plain PyTorch holds it, [birth, death).
  // What codes of copies make of its content, measured on an example; 0: not known.
  int64_t zero_value_bytes = 0;
  int64_t zstd_bytes = 0;

  bool operator==(const Storage&) const = default;
};

// Whether plans give this storage an address in an arena.
constexpr bool is_external(StorageKind kind) {
  return kind == StorageKind::Input || kind == StorageKind::Output ||
         kind == StorageKind::Constant || kind == StorageKind::Generator;
}

enum class ReadKind {
  Data,            // Needs the bytes.
  ShapeOnly,       // Looks at geometry, never at bytes: the storage need not be resident.
  SignOnly,        // One bit per element would do.
  BoundedInteger,  // A narrower integer would do.
};

struct Read {
  StorageId storage;
  int32_t version = 0;
  ReadKind kind = ReadKind::Data;

  bool operator==(const Read&) const = default;
};

// A write that does not also read the version before it covers the whole storage.
struct Write {
  StorageId storage;
  int32_t version = 1;  // The content afterwards.
  StorageId may_take;   // Input whose address this output may take when that input ends here.

  bool operator==(const Write&) const = default;
};

// One allocation that a kernel makes. `live` counts in the kernel's own sequence of requests and
// releases; an output is never released inside the kernel.
struct Request {
  int64_t size_bytes = 0;
  Interval live;
  StorageId output;            // The written storage that it becomes; none for scratch.
  bool is_any_thread = false;  // May come from a worker thread, so in any order.

  bool operator==(const Request&) const = default;
};

// One way to run an op. forms[0] is what plain PyTorch runs.
struct Form {
  std::string name = "default";
  CallId call;
  std::vector<Read> reads;
  std::vector<Write> writes;
  std::vector<Request> requests;    // In order; also those of the outputs.
  int64_t time_ps = 0;              // Measured; picoseconds.
  bool is_pure = false;             // May run again: overwrites only versions that it makes itself.
  bool restores_generator = false;  // Draws again from the generator version that it reads.
  bool has_equal_bits = true;       // The same bits as forms[0] on this machine.

  bool operator==(const Form&) const = default;
};

enum class OpKind {
  Convolution,
  Matmul,
  Normalisation,
  Activation,
  Pool,
  Attention,
  Elementwise,
  Reduction,
  Random,
  Update,
  Collective,
  Copy,
  Other,
};

struct Source {
  std::string module;  // "encoder.layers.3.attention"; empty outside modules.
  std::string file;
  int32_t line = 0;

  bool operator==(const Source&) const = default;
};

struct Op {
  std::string name;  // "aten::addmm"
  Source source;
  OpKind kind = OpKind::Other;
  int32_t repeat = -1;  // Which repeat (recurring sub-sequence) it belongs to; -1 for none.
  bool is_random = false;
  bool must_not_move = false;
  bool is_optional = false;  // Runs only where some form that was chosen reads what it writes.
  int64_t flops = 0;
  int64_t bytes = 0;  // Bytes that the kernel moves at least.
  std::vector<Form> forms;

  bool operator==(const Op&) const = default;
};

// What the runtime executes. Opaque to the core; equal text means equal calls.
struct Call {
  std::string text;

  bool operator==(const Call&) const = default;
};

inline constexpr int64_t kAlignmentBytes = 64;  // As PyTorch has it on the CPU.
inline constexpr int64_t kMostAlignmentBytes = 4096;

struct Program {
  std::string name;
  // Of every device address, a power of two: kernels pick their way by how addresses are aligned,
  // so they have to be aligned as plain PyTorch's are on the device of the program.
  int64_t alignment_bytes = kAlignmentBytes;
  std::vector<Storage> storages;
  std::vector<Op> ops;
  std::vector<Call> calls;

  bool operator==(const Program&) const = default;
};

// Checks that ids are in range, sizes are sane (0 .. 2^52), every op has a form, every read finds a
// version that an earlier op wrote or that exists at start, and versions count up by one per write.
Status validate(const Program& program);

// The version of every storage after the last op: 0 for one that is never written.
std::vector<int32_t> last_versions(const Program& program);

const char* to_string(StorageKind kind);
const char* to_string(ReadKind kind);
const char* to_string(OpKind kind);

}  // namespace fitstep
