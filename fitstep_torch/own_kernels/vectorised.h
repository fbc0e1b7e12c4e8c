// FITSTEP_VECTORISED: one copy of a function for each kind of vector unit; the loader takes the
// best that the processor has.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define FITSTEP_VECTORISED \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define FITSTEP_VECTORISED
#endif
