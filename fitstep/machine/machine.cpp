#include "fitstep/machine/machine.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/json_fields.h"

namespace fitstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

Error bad_profile(const std::string& sentence) {
  return Error{ErrorCode::BadInput, "cannot read the machine profile: " + sentence};
}

Rate read_rate(JsonFields& link, const char* name) {
  Rate rate;
  link.object(name, [&](JsonFields& fields) {
    rate = {.alone_bytes_per_s = fields.number("alone_bytes_per_s", /*least=*/1),
            .both_bytes_per_s = fields.number("both_bytes_per_s", /*least=*/1),
            .latency_ps = fields.number("latency_ps")};
    fields.allow_only({"alone_bytes_per_s", "both_bytes_per_s", "latency_ps"});
  });
  return rate;
}

void read_tiers(JsonFields& fields, Machine& machine) {
  fields.each("tiers", [&](JsonFields& tier) {
    machine.tiers.push_back(Tier{.name = tier.text("name"),
                                 .capacity_bytes = tier.number("capacity_bytes"),
                                 .is_closed = tier.has("closed") && tier.flag("closed")});
    tier.allow_only({"name", "capacity_bytes", "closed"});
  });
  if (machine.tiers.empty()) fields.fail("tiers is empty; a machine has at least a device");
}

double read_slowdown(JsonFields& fields) {
  const double slowdown = fields.real("compute_slowdown");
  if (slowdown < 1) fields.fail(fields.at("compute_slowdown") + " is less than 1");
  return slowdown;
}

void read_links(JsonFields& fields, Machine& machine) {
  const auto tiers = static_cast<int64_t>(machine.tiers.size());
  fields.each("links", [&](JsonFields& link) {
    const int64_t upper = link.number("upper");
    if (upper >= tiers - 1) {
      link.fail(
          fmt::format("{} is {}; a link joins tier `upper` with the tier below it, and there "
                      "are {} tiers",
                      link.at("upper"), upper, tiers));
      return;
    }
    const Link read = {.upper = TierId(upper),
                       .evict = read_rate(link, "evict"),
                       .prefetch = read_rate(link, "prefetch"),
                       .compute_slowdown = read_slowdown(link)};
    link.allow_only({"upper", "evict", "prefetch", "compute_slowdown"});
    machine.links.push_back(read);
  });
}

void read_codecs(JsonFields& fields, Machine& machine) {
  fields.each("codecs", [&](JsonFields& codec) {
    machine.codecs.push_back(
        Codec{.name = codec.text("name"),
              .encode_bytes_per_s = codec.number("encode_bytes_per_s"),
              .decode_bytes_per_s = codec.number("decode_bytes_per_s"),
              .compute_slowdown = codec.has("compute_slowdown") ? read_slowdown(codec) : 1.0,
              .is_on_device = codec.has("on_device") && codec.flag("on_device")});
    codec.allow_only(
        {"name", "encode_bytes_per_s", "decode_bytes_per_s", "compute_slowdown", "on_device"});
  });
}

// A share of a peak: above 0, at most 1.
double read_efficiency(JsonFields& fields, const char* name) {
  const double share = fields.real(name);
  if (share <= 0 || share > 1) fields.fail(fmt::format("{} is not in (0, 1]", fields.at(name)));
  return share;
}

void read_roofline(JsonFields& fields, Machine& machine) {
  if (!fields.has("roofline")) return;
  fields.object("roofline", [&](JsonFields& roofline) {
    machine.roofline =
        Roofline{.fp32_flops_per_s = roofline.number("fp32_flops_per_s", /*least=*/1),
                 .memory_bytes_per_s = roofline.number("memory_bytes_per_s", /*least=*/1),
                 .flops_efficiency = read_efficiency(roofline, "flops_efficiency"),
                 .memory_efficiency = read_efficiency(roofline, "memory_efficiency")};
    roofline.allow_only(
        {"fp32_flops_per_s", "memory_bytes_per_s", "flops_efficiency", "memory_efficiency"});
  });
}

void read_sources(JsonFields& fields, Machine& machine) {
  if (!fields.has("sources")) return;
  for (auto& [figure, source] : fields.texts("sources")) {
    machine.sources.push_back({.figure = figure, .source = source});
  }
}

Json to_json(const Rate& rate) {
  return {{"alone_bytes_per_s", rate.alone_bytes_per_s},
          {"both_bytes_per_s", rate.both_bytes_per_s},
          {"latency_ps", rate.latency_ps}};
}

}  // namespace

Machine unit_machine() {
  const Rate rate = {.alone_bytes_per_s = 1, .both_bytes_per_s = 1, .latency_ps = 0};
  return Machine{.name = "unit",
                 .threads = 1,
                 .launch_ps = 0,
                 .tiers = {{.name = "device"}, {.name = "host"}, {.name = "disk"}},
                 .links = {{.upper = TierId(0), .evict = rate, .prefetch = rate},
                           {.upper = TierId(1), .evict = rate, .prefetch = rate}},
                 .codecs = {}};
}

int64_t room_bytes(const Machine& machine, TierId tier) {
  if (tier.index() >= machine.tiers.size() || machine.tiers[tier.index()].is_closed) return 0;
  const int64_t capacity_bytes = machine.tiers[tier.index()].capacity_bytes;
  return capacity_bytes > 0 ? capacity_bytes : kUnlimitedBytes;
}

Result<Machine> parse_machine(const std::string& json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    return bad_profile(
        fmt::format("{}: it is not JSON from here on; if it is cut off, copy it again",
                    place_of_json_fault(json)));
  }
  std::string fault;
  JsonFields fields(root, "", fault);
  if (const int64_t format = fields.number("format"); fault.empty() && format != kFormat) {
    return bad_profile(
        fmt::format("it has format {}, and this fitstep reads format {}; measure the machine again",
                    format, kFormat));
  }
  Machine machine;
  machine.name = fields.text("name");
  machine.threads = static_cast<int32_t>(fields.number("threads", /*least=*/1, /*most=*/4096));
  machine.launch_ps = fields.number("launch_ps");
  read_tiers(fields, machine);
  read_links(fields, machine);
  read_codecs(fields, machine);
  read_roofline(fields, machine);
  read_sources(fields, machine);
  fields.allow_only({"format", "name", "threads", "launch_ps", "tiers", "links", "codecs",
                     "roofline", "sources"});
  if (!fault.empty()) return bad_profile(fault);
  return machine;
}

std::string print_machine(const Machine& machine) {
  Json tiers = Json::array();
  for (const Tier& tier : machine.tiers) {
    tiers.push_back({{"name", tier.name}, {"capacity_bytes", tier.capacity_bytes}});
    if (tier.is_closed) tiers.back()["closed"] = true;
  }
  Json links = Json::array();
  for (const Link& link : machine.links) {
    links.push_back({{"upper", link.upper.value()},
                     {"evict", to_json(link.evict)},
                     {"prefetch", to_json(link.prefetch)},
                     {"compute_slowdown", link.compute_slowdown}});
  }
  Json codecs = Json::array();
  for (const Codec& codec : machine.codecs) {
    codecs.push_back({{"name", codec.name},
                      {"encode_bytes_per_s", codec.encode_bytes_per_s},
                      {"decode_bytes_per_s", codec.decode_bytes_per_s},
                      {"compute_slowdown", codec.compute_slowdown}});
    if (codec.is_on_device) codecs.back()["on_device"] = true;
  }
  Json root = {{"format", kFormat},
               {"name", machine.name},
               {"threads", machine.threads},
               {"launch_ps", machine.launch_ps},
               {"tiers", tiers},
               {"links", links},
               {"codecs", codecs}};
  if (machine.roofline) {
    root["roofline"] = {{"fp32_flops_per_s", machine.roofline->fp32_flops_per_s},
                        {"memory_bytes_per_s", machine.roofline->memory_bytes_per_s},
                        {"flops_efficiency", machine.roofline->flops_efficiency},
                        {"memory_efficiency", machine.roofline->memory_efficiency}};
  }
  for (const FigureSource& it : machine.sources) root["sources"][it.figure] = it.source;
  // Replaces broken UTF-8 of a name instead of throwing.
  return root.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace fitstep
