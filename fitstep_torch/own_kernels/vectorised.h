// FITSTEP_VECTORISED compiles a function for several vector units; the loader takes the best one
// that the CPU has.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define FITSTEP_VECTORISED \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define FITSTEP_VECTORISED
#endif
