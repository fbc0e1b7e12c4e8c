// Packs groups of 32 words of 4 bytes: only words that are not zero are kept (codecs.h).
//
//   pack     1.5  0.0  0.0 -0.0 ...  ->  1.5 -0.0 ...   and a mask with their bits set
//   unpack   the other way
//
// Three implementations give equal results: plain C++, AVX2 and AVX-512. The running machine
// decides which one is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace fitstep {

inline constexpr size_t kGroupWords = 32;
inline constexpr size_t kWordBytes = 4;
inline constexpr size_t kGroupBytes = kGroupWords * kWordBytes;

struct WordGroups {
  // Returns the mask and moves `to` behind the kept words. May overwrite kGroupBytes from the old
  // `to` on.
  uint32_t (*pack)(const char* from, char*& to);

  // REQUIRES: kGroupBytes can be read at `from`, also if fewer words are kept.
  void (*unpack)(uint32_t mask, const char* from, char* to);
};

enum class WordWidth { Plain, Bits256, Bits512 };

// None if this machine lacks the instructions; Plain always exists.
std::optional<WordGroups> word_groups(WordWidth width);

// The widest on this machine.
WordGroups word_groups();

}  // namespace fitstep
