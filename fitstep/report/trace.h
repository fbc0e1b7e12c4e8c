// A simulated step as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: one track
// per lane, and the bytes on the device as a counter.
//
//   compute   |f0 |f1 |f2 |b2 |f1'|b1 |b0 |      a recompute is "f1 (again)"
//   evict             |-a1-|
//   device    _/^^^^^^\_/^^\____
#pragma once

#include <string>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

// JSON in the Trace Event Format; times in microseconds.
//
// REQUIRES: verify() found no fault; `timeline` is the plan's.
std::string print_trace(const Program& program, const Plan& plan, const Timeline& timeline);

}  // namespace fitstep
