#include "fitstep/plan/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/hash.h"
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/json_fields.h"
#include "fitstep/plan/plan.h"

namespace fitstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr int64_t kMostId = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();
constexpr std::array<const char*, kLaneCount> kLaneNames = {"compute", "evict", "prefetch",
                                                            "disk write", "disk read"};
constexpr std::array<const char*, 3> kCodeNames = {"none", "zero_value", "zstd"};

Error bad_file(const std::string& sentence) {
  return Error{ErrorCode::BadInput, "cannot read the plan file: " + sentence};
}

// Of a field.
std::string name_in_file(Lane lane) {
  std::string name = to_string(lane);
  std::ranges::replace(name, ' ', '_');
  return name;
}

// Plans without a disk have no disk lanes in their files.
bool may_be_missing(Lane lane) { return is_disk_lane(lane); }

// Printing by hand: each residency and each action is one line.

class Printer {
 public:
  // The outermost object without its closing brace and checksum.
  std::string print_body(const Plan& plan) {
    put("{{\n\"fitstep\": \"plan\",\n\"format\": {},\n\"program_hash\": {},\n", kFormat,
        quoted(plan.program_hash));
    put("\"policy\": {},\n\"seed\": {},\n", quoted(plan.policy), plan.seed);
    put_certificate(plan.certificate);
    put("\"residencies\": [");
    for (size_t i = 0; i < plan.residencies.size(); ++i) {
      put(i == 0 ? "\n" : ",\n");
      put_residency(plan.residencies[i]);
    }
    put("\n]");
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const std::vector<Action>& actions = plan.lane(static_cast<Lane>(lane));
      if (actions.empty() && may_be_missing(Lane{lane})) continue;
      put(",\n\"{}\": [", name_in_file(Lane{lane}));
      for (size_t i = 0; i < actions.size(); ++i) {
        put(i == 0 ? "\n" : ",\n");
        put_action(actions[i]);
      }
      put("\n]");
    }
    return std::move(text_);
  }

 private:
  template <class... Arguments>
  void put(fmt::format_string<const Arguments&...> format, const Arguments&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, arguments...);
  }
  void put(const char* text) { text_ += text; }

  // Replaces broken UTF-8 instead of throwing.
  static std::string quoted(const std::string& text) {
    return Json(text).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  }

  void put_certificate(const Certificate& certificate) {
    put("\"certificate\": {{\"floor_bytes\": {}, \"peak_bytes\": {}, \"height_bytes\": {}, "
        "\"capacity_bytes\": {}, \"predicted_ps\": {}, \"bound_ps\": {}, \"bound\": {}, "
        "\"moves\": {}}},\n",
        certificate.floor_bytes, certificate.peak_bytes, certificate.height_bytes,
        certificate.capacity_bytes, certificate.predicted_ps, certificate.bound_ps,
        quoted(certificate.bound), quoted(certificate.moves));
  }

  void put_residency(const Residency& residency) {
    put("{{\"storage\": {}, \"tier\": {}, \"offset_bytes\": {}, \"size_bytes\": {}",
        residency.storage.value(), residency.tier.value(), residency.offset_bytes,
        residency.size_bytes);
    if (residency.code != Code::None) {
      put(", \"code\": \"{}\"", kCodeNames.at(static_cast<size_t>(residency.code)));
    }
    put(residency.is_home ? ", \"home\": true}" : "}");
  }

  void put_action(const Action& action) {
    if (action.kind == Action::Kind::Copy) {
      put("{{\"copy\": [{}, {}]", action.copy.source.value(), action.copy.target.value());
    } else {
      put("{{\"run\": {}", action.run.op.value());
      if (action.run.form != 0) put(", \"form\": {}", action.run.form);
      put_ids("reads", action.run.reads);
      put_ids("writes", action.run.writes);
      put_numbers("requests", action.run.request_offset_bytes);
    }
    if (!action.waits.empty()) put(", \"waits\": [");
    for (size_t i = 0; i < action.waits.size(); ++i) {
      put("{}{{\"lane\": \"{}\", \"position\": {}}}", i == 0 ? "" : ", ",
          name_in_file(action.waits[i].lane), action.waits[i].position);
    }
    if (!action.waits.empty()) put("]");
    put_ids("releases", action.releases);
    put("}");
  }

  void put_ids(const char* name, const std::vector<ResidencyId>& ids) {
    std::vector<int64_t> numbers;
    numbers.reserve(ids.size());
    for (const ResidencyId id : ids) numbers.push_back(id.value());
    put_numbers(name, numbers);
  }

  void put_numbers(const char* name, const std::vector<int64_t>& numbers) {
    if (numbers.empty()) return;
    put(", \"{}\": [", name);
    for (size_t i = 0; i < numbers.size(); ++i) put("{}{}", i == 0 ? "" : ", ", numbers[i]);
    put("]");
  }

  std::string text_;
};

// Checksum of the canonical text, so that a reformatted file stays valid.
std::string checksum(const std::string& body) {
  Fingerprint fingerprint;
  fingerprint.add(body);
  return fingerprint.hex();
}

// Reading.

// The one of the first `count` values that a field names; the first and a fault if none has the
// name.
template <class Value, class NameOf>
Value read_name(JsonFields& fields, const char* name, int count, NameOf name_of) {
  const std::string text = fields.text(name);
  for (int i = 0; i < count; ++i) {
    if (text == name_of(Value{i})) return Value{i};
  }
  fields.fail(fmt::format("{} is \"{}\", which is unknown", fields.at(name), text));
  return Value{0};
}

std::vector<ResidencyId> read_ids(JsonFields& fields, const char* name, int64_t least) {
  std::vector<ResidencyId> ids;
  if (!fields.has(name)) return ids;
  for (const int64_t id : fields.numbers(name, least, kMostId)) ids.push_back(ResidencyId(id));
  return ids;
}

Residency read_residency(JsonFields& fields) {
  Residency residency{.storage = StorageId(fields.number("storage", 0, kMostId)),
                      .tier = TierId(fields.number("tier", 0, kMostId)),
                      .offset_bytes = fields.number("offset_bytes", -1),
                      .size_bytes = fields.number("size_bytes")};
  if (fields.has("code")) {
    residency.code = read_name<Code>(fields, "code", static_cast<int>(kCodeNames.size()),
                                     [](Code code) { return to_string(code); });
  }
  if (fields.has("home")) residency.is_home = fields.flag("home");
  fields.allow_only({"storage", "tier", "offset_bytes", "size_bytes", "code", "home"});
  return residency;
}

Action read_action(JsonFields& fields) {
  Action action;
  if (fields.has("copy")) {
    action.kind = Action::Kind::Copy;
    const std::vector<ResidencyId> ids = read_ids(fields, "copy", 0);
    if (ids.size() == 2) action.copy = Copy{.source = ids[0], .target = ids[1]};
    if (ids.size() != 2) fields.fail(fields.at("copy") + " is not a source and a target");
    fields.allow_only({"copy", "waits", "releases"});
  } else {
    action.run.op = OpId(fields.number("run", 0, kMostId));
    if (fields.has("form")) {
      action.run.form = static_cast<int32_t>(fields.number("form", 0, kMostId));
    }
    action.run.reads = read_ids(fields, "reads", /*least=*/-1);  // -1: none, of a shape-only read.
    action.run.writes = read_ids(fields, "writes", /*least=*/0);
    if (fields.has("requests")) {
      action.run.request_offset_bytes = fields.numbers("requests", /*least=*/-1, kMostBytes);
    }
    fields.allow_only({"run", "form", "reads", "writes", "requests", "waits", "releases"});
  }
  if (fields.has("waits")) {
    fields.each("waits", [&](JsonFields& wait) {
      action.waits.push_back(
          ActionRef{.lane = read_name<Lane>(wait, "lane", kLaneCount, name_in_file),
                    .position = static_cast<int32_t>(wait.number("position", 0, kMostId))});
      wait.allow_only({"lane", "position"});
    });
  }
  action.releases = read_ids(fields, "releases", /*least=*/0);
  return action;
}

Certificate read_certificate(JsonFields& fields) {
  Certificate certificate{.floor_bytes = fields.number("floor_bytes"),
                          .peak_bytes = fields.number("peak_bytes"),
                          .height_bytes = fields.number("height_bytes"),
                          .capacity_bytes = fields.number("capacity_bytes"),
                          .predicted_ps = fields.number("predicted_ps"),
                          .bound_ps = fields.number("bound_ps"),
                          .bound = fields.text("bound"),
                          .moves = fields.text("moves")};
  fields.allow_only({"floor_bytes", "peak_bytes", "height_bytes", "capacity_bytes", "predicted_ps",
                     "bound_ps", "bound", "moves"});
  return certificate;
}

Plan read_plan(JsonFields& fields) {
  Plan plan{.program_hash = fields.text("program_hash"),
            .policy = fields.text("policy"),
            .seed = fields.unsigned_number("seed")};
  fields.object("certificate",
                [&](JsonFields& certificate) { plan.certificate = read_certificate(certificate); });
  fields.each("residencies", [&](JsonFields& residency) {
    plan.residencies.push_back(read_residency(residency));
  });
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const std::string name = name_in_file(Lane{lane});
    if (may_be_missing(Lane{lane}) && !fields.has(name.c_str())) continue;
    fields.each(name.c_str(), [&](JsonFields& action) {
      plan.lane(static_cast<Lane>(lane)).push_back(read_action(action));
    });
  }
  fields.allow_only({"fitstep", "format", "program_hash", "policy", "seed", "certificate",
                     "residencies", "compute", "evict", "prefetch", "disk_write", "disk_read",
                     "checksum"});
  return plan;
}

}  // namespace

const char* to_string(Lane lane) { return kLaneNames.at(static_cast<size_t>(lane)); }
const char* to_string(Code code) { return kCodeNames.at(static_cast<size_t>(code)); }

std::string print_plan(const Plan& plan) {
  std::string text = Printer().print_body(plan);
  const std::string sum = checksum(text);
  text += fmt::format(",\n\"checksum\": \"{}\"\n}}\n", sum);
  return text;
}

Result<Plan> parse_plan(std::string_view text) {
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    return bad_file(fmt::format("{}: it is not JSON from here on; if it is cut off, copy it again",
                                place_of_json_fault(text)));
  }
  std::string fault;
  JsonFields fields(root, "", fault);
  if (fields.text("fitstep") != "plan") {
    return bad_file(fault.empty() ? "\"fitstep\" is not \"plan\", so this is not a plan file"
                                  : fault);
  }
  if (const int64_t format = fields.number("format"); fault.empty() && format != kFormat) {
    return bad_file(
        fmt::format("it has format {}, and this fitstep reads format {}; run fitstep plan again",
                    format, kFormat));
  }
  Plan plan = read_plan(fields);
  const std::string stated = fields.text("checksum");
  if (!fault.empty()) return bad_file(fault);
  if (const std::string actual = checksum(Printer().print_body(plan)); stated != actual) {
    return bad_file(
        fmt::format("its content has checksum {} but the file states {}, so it was "
                    "edited or damaged; copy it again or run fitstep plan again",
                    actual, stated));
  }
  return plan;
}

}  // namespace fitstep
