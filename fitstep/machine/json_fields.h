// JsonFields: reads the fields of one object of a JSON file by name and type.
//
// All objects of a file share one `fault`: the first fault, with the path of its field
// ("links[0].evict.latency_ps is missing"). After a fault every read returns a default value, so a
// caller reads everything and checks `fault` once. Call allow_only() last on each object: otherwise
// a misspelt optional field is ignored silently.
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

// "line 3": where `text` stops being JSON. REQUIRES: `text` is not JSON.
std::string place_of_json_fault(std::string_view text);

class JsonFields {
 public:
  // `path` names the object in faults; empty for the outermost object. `object` and `fault` must
  // outlive this.
  JsonFields(const nlohmann::ordered_json& object, std::string path, std::string& fault);

  bool has(const char* name) const;

  // Each adds a fault if the field is missing or has another type.
  std::string text(const char* name);
  bool flag(const char* name);
  double real(const char* name);
  uint64_t unsigned_number(const char* name);
  int64_t number(const char* name, int64_t least = 0,
                 int64_t most = std::numeric_limits<int64_t>::max());
  std::vector<int64_t> numbers(const char* name, int64_t least, int64_t most);

  // Names and texts of an object with any field names.
  std::vector<std::pair<std::string, std::string>> texts(const char* name);

  // object() calls `read` for the object in a field; each() for every object of a list in a field.
  void object(const char* name, const std::function<void(JsonFields&)>& read);
  void each(const char* name, const std::function<void(JsonFields&)>& read);

  // Adds a fault if the object has another field.
  void allow_only(std::initializer_list<std::string_view> names);

  void fail(const std::string& sentence);

  // The path of a field: "links[0].evict".
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
