// How the verbs write times, shares, sources and JSON, so that all write them alike.
#pragma once

#include <cstddef>
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

// "aten::addmm in layers.0", or "aten::addmm (net.py:12)" where no module is known.
std::string place_of(const Op& op);

// "net.py:12", if that is known.
std::string source_of(const Op& op);

// At most so many bytes, the middle left out: "closure.mod...weight". For people; JSON has it all.
//
// REQUIRES: most > 3.
std::string shortened(const std::string& text, size_t most);

// Each "; " becomes a new line, indented by so many blanks.
std::string hang(const std::string& text, size_t indent);

// A bound's name; what it holds for begins a new line, as above.
std::string hang_bound(std::string bound, size_t indent);

Json to_json(const Certificate& certificate);

// Indented, with a line end; broken UTF-8 of names is repaired.
std::string to_text(const Json& json);

}  // namespace fitstep
