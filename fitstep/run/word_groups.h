// Groups of 32 words of 4 bytes, of which only those that are not zero are kept (codecs.h).
//
//   pack     1.5  0.0  0.0 -0.0 ...  ->  1.5 -0.0 ...   and a mask with their bits set
//   unpack   the other way
//
// In three ways with equal results: in plain C++, and with the wide instructions that x86 machines
// have. The machine that runs this says which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace fitstep {

inline constexpr size_t kGroupWords = 32;
inline constexpr size_t kWordBytes = 4;
inline constexpr size_t kGroupBytes = kGroupWords * kWordBytes;

struct WordGroups {
  // Moves `to` behind what is kept. May overwrite up to kGroupBytes from there on, as far as they
  // would have gone if all were kept.
  uint32_t (*pack)(const char* from, char*& to);

  // REQUIRES: kGroupBytes can be read, however many belong to the group.
  void (*unpack)(uint32_t mask, const char* from, char* to);
};

enum class WordWidth { Plain, Bits256, Bits512 };

// Nothing where this machine has no such instructions; the plain ones are always there.
std::optional<WordGroups> word_groups(WordWidth width);

// The widest that are here.
WordGroups word_groups();

}  // namespace fitstep
