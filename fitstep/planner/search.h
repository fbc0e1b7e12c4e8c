// Search: walks down a ladder of targets and keeps the candidates that nothing beats.
//
//   targets --> drafts --> candidates --> pool --> next target
//
// A target is a number of bytes that the next candidates are to fit into. Drafts are selections
// that have been measured once and are not measured again. Moves say what a policy may do on a
// machine. Ahead searches on threads of its own what will probably be wanted next. Codes choose
// which copies of a finished plan are made in fewer bytes.
#pragma once

#include "fitstep/planner/search/ahead.h"   // IWYU pragma: export
#include "fitstep/planner/search/codes.h"   // IWYU pragma: export
#include "fitstep/planner/search/moves.h"   // IWYU pragma: export
#include "fitstep/planner/search/search.h"  // IWYU pragma: export
