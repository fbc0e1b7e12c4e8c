// Memory for byte_run.h: three arenas, a token in every byte, garbage where nobody has written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fitstep {

using Token = int64_t;  // Garbage is negative and never the same twice.

struct Place {
  int32_t tier = 0;
  int64_t begin = 0;
  int64_t end = 0;  // Not covered any more.
};

class ByteMemory {
 public:
  explicit ByteMemory(int64_t arena_bytes) : arena_bytes_(arena_bytes) {
    for (std::vector<Token>& arena : arenas_) {
      arena.assign(static_cast<size_t>(arena_bytes), garbage());
    }
  }

  Token garbage() { return -++garbage_count_; }

  // None outside the arenas; what has no bytes is anywhere.
  std::optional<Place> place(int32_t tier, int64_t offset_bytes, int64_t size_bytes) const {
    if (size_bytes == 0) return Place{};
    const bool is_tier = tier >= 0 && static_cast<size_t>(tier) < arenas_.size();
    if (!is_tier || offset_bytes < 0 || offset_bytes > arena_bytes_ - size_bytes) return {};
    return Place{tier, offset_bytes, offset_bytes + size_bytes};
  }

  void fill(const Place& place, Token token) {
    for (int64_t i = place.begin; i < place.end; ++i) at(place.tier, i) = token;
  }

  bool holds(const Place& place, Token token) {
    for (int64_t i = place.begin; i < place.end; ++i) {
      if (at(place.tier, i) != token) return false;
    }
    return true;
  }

  std::vector<Token> read(const Place& place) {
    std::vector<Token> content;
    for (int64_t i = place.begin; i < place.end; ++i) content.push_back(at(place.tier, i));
    return content;
  }

  void write(const Place& place, const std::vector<Token>& content) {
    for (size_t i = 0; i < content.size(); ++i) {
      at(place.tier, place.begin + static_cast<int64_t>(i)) = content[i];
    }
  }

 private:
  Token& at(int32_t tier, int64_t address) {
    return arenas_[static_cast<size_t>(tier)][static_cast<size_t>(address)];
  }

  int64_t arena_bytes_;
  int64_t garbage_count_ = 0;
  std::array<std::vector<Token>, 3> arenas_;  // By tier.
};

}  // namespace fitstep
