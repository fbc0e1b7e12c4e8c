// Hashes bytes on a GPU: thread i hashes words i, i + threads, ...; the host hashes these hashes.
#pragma once

#include <cstdint>

#include "fitstep_cuda/pack_elements.h"

namespace fitstep::cuda {

template <class Word>
struct HashWords {
  const Word* words;
  int64_t count;
  int64_t threads;
  uint64_t* hashes;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    uint64_t hash = 0x9E3779B97F4A7C15U ^ static_cast<uint64_t>(i);
    for (int64_t k = i; k < count; k += threads) {
      hash = (hash ^ static_cast<uint64_t>(words[k])) * 0xFF51AFD7ED558CCDU;
      hash ^= hash >> 32U;
    }
    hashes[i] = hash;
  }
};

}  // namespace fitstep::cuda
