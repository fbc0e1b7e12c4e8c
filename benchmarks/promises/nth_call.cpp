// Makes the n-th call of a kind go wrong in a process that runs compiled steps, from outside: it is
// compiled by faults.py and preloaded, and stands between fitstep's module and what that calls.
//
//   fitstep -- callBoxed --> [ the n-th throws ] --> PyTorch's kernel
//           -- pwrite -----> [ the n-th fails, or is late ] --> the system's
//           -- encode -----> [ the n-th fails, or is late ] --> fitstep's, through Coder's vtable
//
// Calls of others pass; so do all of them while nothing is armed.
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace {

enum Kind : int { kNothing = 0, kKernels = 1, kFiles = 2, kCodes = 3 };

std::atomic<int> armed = kNothing;
std::atomic<int> error_number = EIO;
std::atomic<int64_t> place = -1;
std::atomic<int64_t> calls = 0;
std::atomic<uint64_t> delays = 0;  // A seed; 0 for none.
std::atomic<uint64_t> drawn = 0;

// Where fitstep's module lies; once it is loaded.
struct Module {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

int find_module(dl_phdr_info* info, size_t, void* found) {
  if (std::strstr(info->dlpi_name, "/_core.") == nullptr) return 0;
  auto& module = *static_cast<Module*>(found);
  module.begin = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    module.end = std::max(module.end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  return 1;
}

// REQUIRES: the module is loaded: whoever arms has imported it.
const Module& module() {
  static const Module found = [] {
    Module it;
    dl_iterate_phdr(&find_module, &it);
    return it;
  }();
  return found;
}

bool is_ours(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  return address >= module().begin && address < module().end;
}

bool is_next(Kind kind, const void* caller) {
  if (armed.load() != kind || !is_ours(caller)) return false;
  return calls++ == place.load();
}

// Up to a millisecond, by the seed and by how many there were.
void be_late(const void* caller) {
  const uint64_t seed = delays.load();
  if (seed == 0 || !is_ours(caller)) return;
  uint64_t random = (seed * 0x9E3779B97F4A7C15ULL) ^ (++drawn * 0xFF51AFD7ED558CCDULL);
  random ^= random >> 33;
  usleep(static_cast<useconds_t>(random % 1000));
}

// The two virtual functions of fitstep::Coder (run/codecs.h), as they are called.
struct Bytes {
  char* begin;
  size_t size;
};
using Encode = int64_t (*)(void*, int, Bytes from, Bytes to);
using Decode = bool (*)(void*, int, Bytes from, Bytes to);
Encode real_encode = nullptr;
Decode real_decode = nullptr;

int64_t encode(void* coder, int code, Bytes from, Bytes to) {
  be_late(__builtin_return_address(0));
  if (is_next(kCodes, __builtin_return_address(0))) return -1;
  return real_encode(coder, code, from, to);
}

bool decode(void* coder, int code, Bytes from, Bytes to) {
  be_late(__builtin_return_address(0));
  if (is_next(kCodes, __builtin_return_address(0))) return false;
  return real_decode(coder, code, from, to);
}

template <class Function>
Function next(const char* name, void* in = RTLD_NEXT) {
  return reinterpret_cast<Function>(dlsym(in, name));
}

}  // namespace

extern "C" {

void fault_arm(int kind, int64_t n, int error) {
  calls = 0;
  place = n;
  error_number = error;
  armed = kind;
}

int64_t fault_calls() { return calls.load(); }

void fault_delay(uint64_t seed) {
  drawn = 0;
  delays = seed;
}

// `address`: of Coder's vtable in fitstep's module. Its first two entries are the destructors.
void fault_coders(int64_t address) {
  constexpr uintptr_t kPage = 4096;
  auto** entry = reinterpret_cast<void**>(module().begin + static_cast<uintptr_t>(address)) + 4;
  const uintptr_t page = reinterpret_cast<uintptr_t>(entry) / kPage * kPage;
  if (mprotect(reinterpret_cast<void*>(page), 2 * kPage, PROT_READ | PROT_WRITE) != 0) abort();
  real_encode = reinterpret_cast<Encode>(entry[0]);
  real_decode = reinterpret_cast<Decode>(entry[1]);
  entry[0] = reinterpret_cast<void*>(&encode);
  entry[1] = reinterpret_cast<void*>(&decode);
}

ssize_t pwrite(int file, const void* from, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  be_late(__builtin_return_address(0));
  if (!is_next(kFiles, __builtin_return_address(0))) return real(file, from, size, offset);
  errno = error_number;
  return -1;
}

ssize_t pread(int file, void* to, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  be_late(__builtin_return_address(0));
  if (!is_next(kFiles, __builtin_return_address(0))) return real(file, to, size, offset);
  errno = error_number;
  return -1;
}

int fallocate(int file, int mode, off_t offset, off_t size) {
  static const auto real = next<int (*)(int, int, off_t, off_t)>("fallocate");
  if (!is_next(kFiles, __builtin_return_address(0))) return real(file, mode, offset, size);
  errno = error_number;
  return -1;
}

int unlink(const char* path) {
  static const auto real = next<int (*)(const char*)>("unlink");
  const bool fails = is_next(kFiles, __builtin_return_address(0));
  const int done = real(path);  // All the same, or the folder would fill.
  if (!fails) return done;
  errno = error_number;
  return -1;
}

}  // extern "C"

namespace at {

// The dispatcher asks this once at the begin of every call.
std::optional<StepCallbacks> getStepCallbacksUnlessEmpty(RecordScope scope) {
  using Real = std::optional<StepCallbacks> (*)(RecordScope);
  // Python loads PyTorch for its modules alone, so it is not among what comes next.
  static const auto real = next<Real>("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE",
                                      dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD));
  be_late(__builtin_return_address(0));
  if (is_next(kKernels, __builtin_return_address(0))) throw std::runtime_error("a kernel throws");
  return real(scope);
}

}  // namespace at
