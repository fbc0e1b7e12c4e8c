#include "fitstep/machine/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fitstep {

using Json = nlohmann::ordered_json;

namespace {

// Keeps no values; stops at the first byte that is not JSON.
class FaultFinder : public nlohmann::json_sax<Json> {
 public:
  size_t place() const { return place_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t place, const std::string&, const nlohmann::detail::exception&) override {
    place_ = place;
    return false;
  }

 private:
  size_t place_ = 0;  // Counted from 1, as in the parser; past the end if the text is cut off.
};

}  // namespace

std::string place_of_json_fault(std::string_view text) {
  FaultFinder finder;
  Json::sax_parse(text, &finder);
  const size_t before = finder.place() == 0 ? 0 : finder.place() - 1;
  return fmt::format("line {}", 1 + std::ranges::count(text.substr(0, before), '\n'));
}

JsonFields::JsonFields(const Json& object, std::string path, std::string& fault)
    : object_(object), path_(std::move(path)), fault_(fault) {
  if (object_.is_object()) return;
  fail(path_.empty() ? "it is not a JSON object" : path_ + " is not an object");
}

bool JsonFields::has(const char* name) const {
  return object_.is_object() && object_.contains(name);
}

std::string JsonFields::text(const char* name) {
  const Json* field = find(name);
  if (field == nullptr) return {};
  if (field->is_string()) return field->get<std::string>();
  fail(at(name) + " is not a string");
  return {};
}

bool JsonFields::flag(const char* name) {
  const Json* field = find(name);
  if (field == nullptr) return false;
  if (field->is_boolean()) return field->get<bool>();
  fail(at(name) + " is neither true nor false");
  return false;
}

double JsonFields::real(const char* name) {
  const Json* field = find(name);
  if (field == nullptr) return 0;
  if (field->is_number()) return field->get<double>();
  fail(at(name) + " is not a number");
  return 0;
}

uint64_t JsonFields::unsigned_number(const char* name) {
  const Json* field = find(name);
  if (field == nullptr) return 0;
  if (field->is_number_unsigned()) return field->get<uint64_t>();
  fail(at(name) + " is not a whole number from 0 on");
  return 0;
}

int64_t JsonFields::number(const char* name, int64_t least, int64_t most) {
  const Json* field = find(name);
  return field == nullptr ? 0 : check_number(*field, at(name), least, most);
}

std::vector<int64_t> JsonFields::numbers(const char* name, int64_t least, int64_t most) {
  std::vector<int64_t> numbers;
  const Json* field = find(name);
  if (field == nullptr) return numbers;
  if (!field->is_array()) {
    fail(at(name) + " is not a list");
    return numbers;
  }
  numbers.reserve(field->size());
  for (size_t i = 0; i < field->size(); ++i) {
    numbers.push_back(check_number((*field)[i], at(name), least, most));
  }
  return numbers;
}

std::vector<std::pair<std::string, std::string>> JsonFields::texts(const char* name) {
  std::vector<std::pair<std::string, std::string>> texts;
  object(name, [&](JsonFields& fields) {
    if (!fields.object_.is_object()) return;
    for (const auto& [key, value] : fields.object_.items()) {
      if (!value.is_string()) fields.fail(fields.at(key) + " is not a string");
      texts.emplace_back(key, value.is_string() ? value.get<std::string>() : std::string());
    }
  });
  return texts;
}

void JsonFields::object(const char* name, const std::function<void(JsonFields&)>& read) {
  const Json* field = find(name);
  if (field == nullptr) return;
  JsonFields fields(*field, at(name), fault_);
  read(fields);
}

void JsonFields::each(const char* name, const std::function<void(JsonFields&)>& read) {
  const Json* field = find(name);
  if (field == nullptr) return;
  if (!field->is_array()) {
    fail(at(name) + " is not a list");
    return;
  }
  for (size_t i = 0; i < field->size(); ++i) {
    JsonFields fields((*field)[i], fmt::format("{}[{}]", at(name), i), fault_);
    read(fields);
  }
}

void JsonFields::allow_only(std::initializer_list<std::string_view> names) {
  if (!object_.is_object()) return;
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::count(names, name) == 0) fail(at(name) + " is unknown");
  }
}

void JsonFields::fail(const std::string& sentence) {
  if (fault_.empty()) fault_ = sentence;
}

std::string JsonFields::at(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* JsonFields::find(const char* name) {
  if (!object_.is_object()) return nullptr;
  const auto field = object_.find(name);
  if (field != object_.end()) return &*field;
  fail(at(name) + " is missing");
  return nullptr;
}

int64_t JsonFields::check_number(const Json& value, const std::string& path, int64_t least,
                                 int64_t most) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > kMost)) {
    fail(path + " is not a whole number that fits 64 bits");
    return 0;
  }
  const auto number = value.get<int64_t>();
  if (number >= least && number <= most) return number;
  if (least == 0 && number < 0) {
    fail(fmt::format("{} is negative ({})", path, number));
  } else {
    fail(fmt::format("{} is {}, outside {} .. {}", path, number, least, most));
  }
  return 0;
}

}  // namespace fitstep
