// JsonFields: one object of a JSON file, whose fields are asked for by name and type.
//
// The first fault of the whole file is kept in one place, with the path of its field
// ("links[0].evict.latency_ps is missing"), and everything read after it is a default value; so a
// reader reads everything and asks once. Each object ends with allow_only(), because a misspelt
// optional field would otherwise be ignored silently.
#pragma once

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

// "line 3": where a text stops being JSON. REQUIRES: it is none.
std::string place_of_json_fault(std::string_view text);

class JsonFields {
 public:
  // `path` names the object in faults and is empty for the outermost. `object` and `fault` outlive
  // this; `fault` stays empty while all is well.
  JsonFields(const nlohmann::ordered_json& object, std::string path, std::string& fault);

  bool has(const char* name) const;

  // Each is a fault where the field is missing or of another type.
  std::string text(const char* name);
  bool flag(const char* name);
  double real(const char* name);
  uint64_t unsigned_number(const char* name);
  int64_t number(const char* name, int64_t least = 0,
                 int64_t most = std::numeric_limits<int64_t>::max());
  std::vector<int64_t> numbers(const char* name, int64_t least, int64_t most);

  // Names and texts of an object that may have any names.
  std::vector<std::pair<std::string, std::string>> texts(const char* name);

  // Calls `read` for the object in a field, or for every object of the list in it.
  void object(const char* name, const std::function<void(JsonFields&)>& read);
  void each(const char* name, const std::function<void(JsonFields&)>& read);

  // A fault where the object has another field.
  void allow_only(std::initializer_list<std::string_view> names);

  void fail(const std::string& sentence);

  // "links[0].evict" for evict in links[0].
  std::string at(std::string_view name) const;

 private:
  const nlohmann::ordered_json* find(const char* name);
  int64_t check_number(const nlohmann::ordered_json& value, const std::string& path, int64_t least,
                       int64_t most);

  const nlohmann::ordered_json& object_;
  std::string path_;
  std::string& fault_;
};

}  // namespace fitstep
