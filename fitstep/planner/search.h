// Search: walks down a ladder of targets and keeps the candidates that nothing beats.
//
//   targets --> drafts --> candidates --> pool --> next target
//
// A target is a number of bytes into which the next candidates shall fit. `drafts` keeps selections
// that were measured once. `moves` says what a policy may do on a machine. `ahead` uses threads to
// search early for what will probably be needed next. `codes` chooses which copies of a finished
// plan are compressed.
#pragma once

#include "fitstep/planner/search/ahead.h"   // IWYU pragma: export
#include "fitstep/planner/search/codes.h"   // IWYU pragma: export
#include "fitstep/planner/search/moves.h"   // IWYU pragma: export
#include "fitstep/planner/search/search.h"  // IWYU pragma: export
