// How the verbs write times, shares, sources and JSON, so that all write them alike.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

using Json = nlohmann::ordered_json;

// "1.234 s", "12.30 ms", "0 s": four digits, for people; JSON holds picoseconds.
std::string format_seconds(int64_t time_ps);

// "75.0 %"; "-" of nothing.
std::string format_share(int64_t part, int64_t whole);

// "1.03x"; "-" of nothing.
std::string format_ratio(int64_t number, int64_t base);

// "aten::addmm in layers.0 (net.py:12)", without what is not known.
std::string place_of(const Op& op);

Json to_json(const Certificate& certificate);

// Indented, with a line end; broken UTF-8 of names is repaired.
std::string to_text(const Json& json);

}  // namespace fitstep
