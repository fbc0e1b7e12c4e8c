// The machine that a plan is made for: tiers with capacities, links with rates, codecs.
//
//   device --evict--> host --evict--> disk        rates in bytes per second, one per direction,
//   device <-prefetch- host <-prefetch- disk      alone and with both directions busy
//
// The unit machine (1 byte per second, every op 1 second) is for tests: expected numbers are mental
// arithmetic.
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
  int64_t capacity_bytes = 0;  // 0 for "not known": the budget says.
  bool is_closed = false;      // Nothing may lie there; what goes on below passes through.

  bool operator==(const Tier&) const = default;
};

struct Rate {
  int64_t alone_bytes_per_s = 0;
  int64_t both_bytes_per_s = 0;  // While the other direction is busy too.
  int64_t latency_ps = 0;        // Fixed cost of one copy.

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
  // By kernels of the device, so that its link carries the code: for copies to the host only.
  bool is_on_device = false;

  bool operator==(const Codec&) const = default;
};

// Peak figures, for the times of ops that nobody has measured there (roofline.h), and the shares of
// them that kernels are taken to reach.
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

// Most bytes that may lie on the tier: none if it is closed or not there, kUnlimitedBytes if nobody
// knows.
int64_t room_bytes(const Machine& machine, TierId tier);
inline constexpr int64_t kUnlimitedBytes =
    std::numeric_limits<int64_t>::max() / 4;  // Sums are in range.

// JSON, as in machine/profiles/; `roofline`, `sources` and a tier's `closed` may be left out.
// Unknown fields, negative rates and machines without tiers are errors that name the field.
Result<Machine> parse_machine(const std::string& json);
std::string print_machine(const Machine& machine);

}  // namespace fitstep
