// The machine that a plan is made for: memory tiers, links between them, and codecs.
//
//   device --evict--> host --evict--> disk        rates in bytes per second, one per direction,
//   device <-prefetch- host <-prefetch- disk      alone and with both directions busy
//
// The unit machine (1 byte per second, every op 1 second) makes expected numbers of tests easy.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"

namespace fitstep {

inline constexpr int64_t kPicosecondsPerSecond = 1'000'000'000'000;

struct Tier {
  std::string name;            // "device", "host", "disk"
  int64_t capacity_bytes = 0;  // 0: not known; the budget decides.
  bool is_closed = false;      // Nothing may lie there; copies to lower tiers pass through.

  bool operator==(const Tier&) const = default;
};

struct Rate {
  int64_t alone_bytes_per_s = 0;
  int64_t both_bytes_per_s = 0;  // While the other direction is busy too.
  int64_t latency_ps = 0;        // Fixed cost per copy.

  bool operator==(const Rate&) const = default;
};

// Between tier `upper` and the tier below it.
struct Link {
  TierId upper;
  Rate evict;
  Rate prefetch;
  double compute_slowdown = 1.0;  // Op time while the link copies without a pause / op time alone.

  bool operator==(const Link&) const = default;
};

struct Codec {
  std::string name;
  int64_t encode_bytes_per_s = 0;
  int64_t decode_bytes_per_s = 0;
  double compute_slowdown = 1.0;  // Op time while one thread codes without a pause / op time alone.
  // Kernels of the device code, so the link carries the code. Only for copies to the host.
  bool is_on_device = false;

  bool operator==(const Codec&) const = default;
};

// The device's peaks, and the shares of the peaks that kernels reach. They estimate times of ops
// that were never measured on this machine (roofline.h).
struct Roofline {
  int64_t fp32_flops_per_s = 0;
  int64_t memory_bytes_per_s = 0;
  double flops_efficiency = 1.0;
  double memory_efficiency = 1.0;

  bool operator==(const Roofline&) const = default;
};

// Where a figure of a profile comes from.
struct FigureSource {
  std::string figure;  // "links[0].alone_bytes_per_s"
  std::string source;

  bool operator==(const FigureSource&) const = default;
};

struct Machine {
  std::string name;
  int32_t threads = 1;
  int64_t launch_ps = 0;  // Added to every op.
  std::vector<Tier> tiers;
  std::vector<Link> links;
  std::vector<Codec> codecs;
  std::optional<Roofline> roofline;
  std::vector<FigureSource> sources;

  bool operator==(const Machine&) const = default;
};

Machine unit_machine();

// Most bytes that may lie on the tier: 0 if it is closed or missing, kUnlimitedBytes if not known.
int64_t room_bytes(const Machine& machine, TierId tier);
inline constexpr int64_t kUnlimitedBytes =
    std::numeric_limits<int64_t>::max() / 4;  // So that sums do not overflow.

// Reads and writes JSON as in machine/profiles/; `roofline`, `sources` and a tier's `closed` may be
// missing. Errors name the field: unknown fields, rates below 1, no tiers.
Result<Machine> parse_machine(const std::string& json);
std::string print_machine(const Machine& machine);

}  // namespace fitstep
