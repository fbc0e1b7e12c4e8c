// How all verbs write times, shares, sources and JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

using Json = nlohmann::ordered_json;

// "1.234 s", "12.30 ms", "0 s": four digits, for people; JSON holds picoseconds.
std::string format_seconds(int64_t time_ps);

// "75.0 %"; "-" if `whole` is 0.
std::string format_share(int64_t part, int64_t whole);

// "1.030x"; "-" if `base` is 0.
std::string format_ratio(int64_t number, int64_t base);

// "1 copy", "4 copies".
std::string format_count(size_t count, std::string_view one, std::string_view many);

// "aten::addmm in layers.0"; if the module is not known, "aten::addmm (net.py:12)".
std::string place_of(const Op& op);

// "net.py:12"; empty if the source is not known.
std::string source_of(const Op& op);

// At most `most` bytes, the middle left out: "closure.mod...weight".
//
// REQUIRES: most > 3.
std::string shortened(const std::string& text, size_t most);

// Each "; " becomes a new line, indented by `indent` blanks.
std::string hang(const std::string& text, size_t indent);

// A bound's name; its scope in brackets begins a new line, as above.
std::string hang_bound(std::string bound, size_t indent);

Json to_json(const Certificate& certificate);

// Indented, with a line end; broken UTF-8 of names is repaired.
std::string to_text(const Json& json);

}  // namespace fitstep
