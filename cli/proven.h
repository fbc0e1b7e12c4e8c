// A plan with its program and machine, for the verbs that show plans: read, verified and
// simulated.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/machines.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct PlanFiles {
  std::string plan_path;
  std::string program_path;
  MachineOptions machine;
};

struct Proven {
  Program program;  // With the times that were asked for.
  Plan plan;
  Machine machine;
  std::string times;
  Timeline timeline;
};

void add_plan_files(CLI::App& verb, PlanFiles& files);

// Errors: a file cannot be read; the plan copies to a tier that the machine lacks; Mismatch, with
// the first fault, if the plan is not valid.
Result<Proven> load_proven(const PlanFiles& files);

// On the device: the plan's capacity. On the other tiers: the machine's capacity, if known.
Limits limits_of(const Plan& plan, const Machine& machine);

// Most bytes on the device, tick by tick.
std::vector<int64_t> live_bytes(const Timeline& timeline);

struct Bound {
  int64_t time_ps = 0;
  std::string name;
};

// A time that no plan beats: the certificate's bound. If op times differ from those that the plan
// was made with: the time of every op once.
Bound bound_of(const Proven& proven);

// The answer for an error of load_proven(): no for a Mismatch, bad input otherwise.
Answer refuse(const Error& error);

}  // namespace fitstep
