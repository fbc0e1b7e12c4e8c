// Layout: an address for every block, as low in all as can be found or proven.
//
//   blocks with ticks --> sections of time --> skylines, colouring, exact search --> offsets
//
// A block has a size and the ticks during which it is there; two that are there together may not
// overlap. Time is cut into sections that share no block, and each is laid out by itself. Quick
// rules come first. Where they leave a gap to the peak, below which nothing can be, an exact search
// finds a better layout or proves that there is none.
#pragma once

#include "fitstep/planner/layout/placer.h"  // IWYU pragma: export
