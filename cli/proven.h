// A plan with its program and a machine, as the verbs that look at plans want them: read, verified,
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

// Errors: those of the files; a plan that copies to tiers that the machine does not have; Mismatch
// for a plan with faults, of which it names the first.
Result<Proven> load_proven(const PlanFiles& files);

// What the plan was made for on the device; on the tiers below what the machine has, if known.
Limits limits_of(const Plan& plan, const Machine& machine);

// Most bytes on the device, tick by tick.
std::vector<int64_t> live_bytes(const Timeline& timeline);

struct Bound {
  int64_t time_ps = 0;
  std::string name;
};

// What no plan beats: the certificate's bound, or at other times than the plan was made with the
// time of all ops once.
Bound bound_of(const Proven& proven);

// The answer for an error of load_proven(): no for a Mismatch, bad input otherwise.
Answer refuse(const Error& error);

}  // namespace fitstep
