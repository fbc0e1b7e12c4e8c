// Checks who has each byte. An arena maps addresses to the block that had the bytes last. A new
// block must come after every block that it finds there; blocks before those come earlier by
// transitivity. So each birth looks at few blocks, and 100,000 blocks take a fraction of a second.
//
//   address  0        64       128      192
//            |-- 3 ---|-- 7 ------------|      born now: [64, 128): must come after block 7
//            |-- 3 ---|-- 9 ---|-- 7 ---|
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/plan/verify_parts.h"

namespace fitstep::verifier {
namespace {

struct Block {
  ActionRef action;  // Its birth; none for homes.
  Birth birth;
  bool is_home = false;
};

class Arena {
 public:
  // Gives [begin, end) to `block`. Calls `meet` with each block that had some of these bytes.
  template <class Meet>
  void give(int64_t begin, int64_t end, size_t block, Meet meet) {
    split(begin);
    split(end);
    auto piece = pieces_.lower_bound(begin);
    while (piece != pieces_.end() && piece->first < end) {
      meet(piece->second.block);
      piece = pieces_.erase(piece);
    }
    pieces_.emplace(begin, Piece{end, block});
  }

 private:
  struct Piece {
    int64_t end;
    size_t block;
  };

  // Cuts the piece that reaches across `address`.
  void split(int64_t address) {
    const auto next = pieces_.lower_bound(address);
    if (next == pieces_.begin()) return;
    Piece& piece = std::prev(next)->second;
    if (piece.end <= address) return;
    pieces_.emplace_hint(next, address, piece);
    piece.end = address;
  }

  std::map<int64_t, Piece> pieces_;  // By begin.
};

class SpaceCheck {
 public:
  SpaceCheck(const Subject& subject, const Order& order, const std::vector<Life>& lives,
             Faults& faults)
      : subject_(subject),
        order_(order),
        lives_(lives),
        faults_(faults),
        arenas_(subject.limits.capacity_bytes.size()),
        end_bytes_(subject.limits.capacity_bytes.size(), 0) {
    space_.has_taken.assign(subject.plan.residencies.size(), false);
  }

  Space run() {
    for (size_t i = 0; i < subject_.plan.residencies.size(); ++i) {
      const Residency& residency = subject_.plan.residencies[i];
      if (!residency.is_home || residency.tier == kExternalTier) continue;
      if (residency.size_bytes == 0) continue;
      add(Block{.birth = {.residency = ResidencyId(i),
                          .tier = residency.tier,
                          .offset_bytes = residency.offset_bytes,
                          .size_bytes = residency.size_bytes,
                          .live = {.begin = 0, .end = kKernelEnd}},
                .is_home = true});
    }
    for (const ActionRef ref : order_.sequence()) {
      for (const Birth& birth : births(subject_, lives_, ref)) {
        add(Block{.action = ref, .birth = birth});
      }
      if (faults_.is_full()) break;
    }
    check_capacity();
    space_.height_bytes = end_bytes_[kDeviceTier.index()];
    return std::move(space_);
  }

 private:
  void add(const Block& block) {
    const Birth& birth = block.birth;
    if (birth.offset_bytes % alignment_of(birth.tier) != 0) {
      faults_.add(FaultKind::Misaligned, "{} is at offset {}, not a multiple of {}", label(block),
                  birth.offset_bytes, alignment_of(birth.tier));
    }
    const int64_t bottom_bytes = bottom_of(birth.tier);
    if (!block.is_home && birth.offset_bytes < bottom_bytes) {
      faults_.add(FaultKind::Overlap, "{} is at offset {}; only homes lie below {}", label(block),
                  birth.offset_bytes, bottom_bytes);
    }
    const size_t tier = birth.tier.index();
    const int64_t end_bytes = birth.offset_bytes + birth.size_bytes;
    end_bytes_[tier] = std::max(end_bytes_[tier], end_bytes);
    const size_t index = blocks_.size();
    blocks_.push_back(block);
    arenas_[tier].give(birth.offset_bytes, end_bytes, index, [&](size_t earlier) {
      if (is_gone(blocks_[earlier], block)) return;
      if (takes(blocks_[earlier], block)) {
        space_.has_taken[birth.residency.index()] = true;
        return;
      }
      faults_.add(FaultKind::Overlap, "{} at [{}, {}) overlaps {} at [{}, {})", label(block),
                  birth.offset_bytes, end_bytes, label(blocks_[earlier]),
                  blocks_[earlier].birth.offset_bytes,
                  blocks_[earlier].birth.offset_bytes + blocks_[earlier].birth.size_bytes);
    });
  }

  int64_t alignment_of(TierId tier) const {
    if (tier == kDeviceTier) return subject_.program.alignment_bytes;
    return tier == kDiskTier ? kDiskAlignmentBytes : 1;
  }

  int64_t bottom_of(TierId tier) const {
    if (tier == kDeviceTier) return subject_.limits.bottom_bytes;
    return tier == kHostTier ? subject_.limits.host_bottom_bytes : 0;
  }

  // True if the life of `earlier` has always ended when `block` begins.
  bool is_gone(const Block& earlier, const Block& block) const {
    if (earlier.is_home || block.is_home) return false;
    if (earlier.birth.residency.is_none()) {  // Scratch ends within its action.
      return earlier.action == block.action ? earlier.birth.live.end <= block.birth.live.begin
                                            : order_.ends_before(earlier.action, block.action);
    }
    const Life& life = lives_[earlier.birth.residency.index()];
    return life.is_released && order_.ends_before(life.release, block.action);
  }

  // True if `block` is an output that takes the bytes of an input that ends in the same action.
  bool takes(const Block& input, const Block& block) const {
    if (block.is_home || input.birth.residency.is_none()) return false;
    if (block.birth.may_take != input.birth.residency) return false;
    const Life& life = lives_[input.birth.residency.index()];
    return life.is_released && life.release == block.action &&
           block.birth.offset_bytes == input.birth.offset_bytes &&
           block.birth.size_bytes <= input.birth.size_bytes;
  }

  void check_capacity() {
    for (size_t tier = 0; tier < end_bytes_.size(); ++tier) {
      const int64_t capacity_bytes = subject_.limits.capacity_bytes[tier];
      if (end_bytes_[tier] <= capacity_bytes) continue;
      faults_.add(FaultKind::OverCapacity, "the plan needs {} bytes on tier {}, which has {}",
                  end_bytes_[tier], tier, capacity_bytes);
    }
  }

  std::string label(const Block& block) const {
    if (!block.birth.residency.is_none()) return subject_.label(block.birth.residency);
    return fmt::format("scratch of {}", subject_.label(block.action));
  }

  const Subject& subject_;
  const Order& order_;
  const std::vector<Life>& lives_;
  Faults& faults_;
  std::vector<Arena> arenas_;       // By tier.
  std::vector<int64_t> end_bytes_;  // By tier.
  std::vector<Block> blocks_;
  Space space_;
};

}  // namespace

Space check_space(const Subject& subject, const Order& order, const std::vector<Life>& lives,
                  Faults& faults) {
  return SpaceCheck(subject, order, lives, faults).run();
}

}  // namespace fitstep::verifier
