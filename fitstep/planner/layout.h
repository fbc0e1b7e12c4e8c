// Layout: gives every block an offset, so that the highest address in use is as low as possible.
//
//   blocks with ticks --> parts of time --> colouring, skylines, exact search --> offsets
//
// A block has a size and a range of ticks. Two blocks that are live at the same tick may not
// overlap. Time is cut into parts that share no block, and each part is laid out by itself. Fast
// rules come first. No layout is lower than the peak of live bytes. If the fast rules end above the
// peak, an exact search finds a lower layout or proves that there is none.
#pragma once

#include "fitstep/planner/layout/placer.h"  // IWYU pragma: export
