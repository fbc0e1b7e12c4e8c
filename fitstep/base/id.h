// Id<Tag>: a position in one list. OpId and StorageId are different types, so code that passes an
// OpId for a StorageId does not compile. A default-constructed id is "none".
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace fitstep {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(int64_t value) : value_(static_cast<int32_t>(value)) {}
  constexpr explicit Id(size_t value) : value_(static_cast<int32_t>(value)) {}
  constexpr explicit Id(int32_t value) : value_(value) {}

  constexpr bool is_none() const { return value_ < 0; }
  constexpr int32_t value() const { return value_; }  // -1 for none.

  // REQUIRES: not none.
  constexpr size_t index() const { return static_cast<size_t>(value_); }

  constexpr auto operator<=>(const Id&) const = default;

 private:
  int32_t value_ = -1;
};

using StorageId = Id<struct StorageTag>;
using OpId = Id<struct OpTag>;
using CallId = Id<struct CallTag>;
using ResidencyId = Id<struct ResidencyTag>;
using TierId = Id<struct TierTag>;

}  // namespace fitstep
