// Fingerprint: 64 bits of FNV-1a over bytes and integers, in a fixed byte order.
//
// Use it to tell files apart and to notice edits. It does not protect against attacks. We use
// FNV-1a because anybody can check its ten lines, and the hashed texts are small.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fitstep {

class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
  }

  // Eight bytes, least significant first, on every machine.
  void add(int64_t number) {
    auto rest = static_cast<uint64_t>(number);
    for (int i = 0; i < 8; ++i, rest >>= 8) add_byte(static_cast<unsigned char>(rest & 0xff));
  }

  uint64_t value() const { return value_; }

  // 16 digits.
  std::string hex() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text(16, '0');
    uint64_t rest = value_;
    for (size_t i = text.size(); i-- > 0; rest >>= 4) text[i] = kDigits[rest & 0xf];
    return text;
  }

 private:
  void add_byte(unsigned char byte) {
    value_ ^= byte;
    value_ *= 0x100000001b3;  // The FNV prime for 64 bits.
  }

  uint64_t value_ = 0xcbf29ce484222325;  // FNV's offset basis.
};

}  // namespace fitstep
