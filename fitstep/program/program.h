// A program is one training step as data: its storages, and its ops in execution order.
//
// A storage is memory shared by aliasing tensors. Each write makes a new version of it; version 0
// is the content when the step starts (persistent storages, inputs and constants have version 0). A
// view is not an op: reads and writes name storages. The running example of all headers and tests
// is the activation pyramid: forward ops save the activations that backward ops read:
//
//   bytes
//     3 |         +-- a2 ---+
//     2 |    +------- a1 --------+
//     1 +------------ a0 -------------+
//       +----+----+----+----+----+----+--> tick
//         f0   f1   f2   b2   b1   b0
//
// A random number generator is a storage: its content is its state. An op that draws random numbers
// reads version k of the generator and writes version k + 1.
//
// An optional op, which plain PyTorch does not run, packs a large storage into a small one. Here
// `pack` writes to m the sign of each element of y. In a plan either b reads y, or pack runs and
// another form of b reads m:
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
  Input,      // The caller's memory; plans give it no address.
  Output,     // Returned to the caller; plans give it no address.
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
  bool has_content_at_start = false;  // Ops may read version 0.
  Interval recorded;                  // Ticks at which plain PyTorch holds it, [birth, death).
  // Size of its content in each code, measured on an example; 0: not known.
  int64_t zero_value_bytes = 0;
  int64_t zstd_bytes = 0;

  bool operator==(const Storage&) const = default;
};

// Whether plans give this storage no address in an arena.
constexpr bool is_external(StorageKind kind) {
  return kind == StorageKind::Input || kind == StorageKind::Output ||
         kind == StorageKind::Constant || kind == StorageKind::Generator;
}

enum class ReadKind {
  Data,            // Needs the bytes.
  ShapeOnly,       // Needs sizes and strides, no bytes: the storage need not be resident.
  SignOnly,        // One bit per element is enough.
  BoundedInteger,  // A narrower integer is enough.
};

struct Read {
  StorageId storage;
  int32_t version = 0;
  ReadKind kind = ReadKind::Data;

  bool operator==(const Read&) const = default;
};

// If the op does not also read the version before, the write covers the whole storage.
struct Write {
  StorageId storage;
  int32_t version = 1;  // After the write.
  StorageId may_take;   // The output may take this input's address if the input ends here.

  bool operator==(const Write&) const = default;
};

// One allocation of a kernel. `live` counts positions in the kernel's sequence of requests and
// releases; a kernel never releases its outputs.
struct Request {
  int64_t size_bytes = 0;
  Interval live;
  StorageId output;            // The storage that it becomes; none for scratch.
  bool is_any_thread = false;  // A worker thread may make it, so the order varies.

  bool operator==(const Request&) const = default;
};

// One way to run an op. forms[0] is what plain PyTorch runs.
struct Form {
  std::string name = "default";
  CallId call;
  std::vector<Read> reads;
  std::vector<Write> writes;
  std::vector<Request> requests;    // In order; outputs included.
  int64_t time_ps = 0;              // Measured; picoseconds.
  bool is_pure = false;             // May run again: overwrites no version of another op.
  bool restores_generator = false;  // Draws from the generator version that it reads.
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
  int32_t repeat = -1;  // Its repeat (recurring sub-sequence of ops); -1: none.
  bool is_random = false;
  bool must_not_move = false;  // All such ops keep their order among each other.
  bool is_optional = false;    // Runs only if a chosen form reads its outputs.
  int64_t flops = 0;
  int64_t bytes = 0;  // Least bytes that the kernel moves.
  std::vector<Form> forms;

  bool operator==(const Op&) const = default;
};

// The text that the runtime executes. The core only compares it: equal text, equal call.
struct Call {
  std::string text;

  bool operator==(const Call&) const = default;
};

inline constexpr int64_t kAlignmentBytes = 64;  // As in PyTorch on the CPU.
inline constexpr int64_t kMostAlignmentBytes = 4096;

struct Program {
  std::string name;
  // Of every device address; a power of two. It must be plain PyTorch's alignment on the device,
  // because kernels choose their algorithm by the alignment of their operands.
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
