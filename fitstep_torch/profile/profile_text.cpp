// The profile as text, which the caller keeps on disk.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/profile/profile.h"

namespace fitstep::torch_side {

std::map<std::string, std::string> Profile::save() const {
  std::map<std::string, std::string> saved;
  for (const auto& [signature, measured] : known_) {
    if (!has_own_name(signature)) continue;  // A custom kernel may change.
    std::string text = fmt::format("{} {} {} {}", measured.time_ps, int{measured.draws},
                                   int{measured.is_repeatable}, int{measured.is_any_thread});
    const auto add = [&text](int64_t number) { text += fmt::format(" {}", number); };
    add(static_cast<int64_t>(measured.requests.size()));
    for (const MeasuredRequest& request : measured.requests) {
      add(request.size_bytes), add(request.live.begin), add(request.live.end), add(request.result);
    }
    add(static_cast<int64_t>(measured.results.size()));
    for (size_t i = 0; i < measured.results.size(); ++i) {
      const TensorRef& ref = measured.results[i];
      add(ref.storage), add(ref.offset), add(static_cast<int64_t>(ref.dtype));
      add(measured.result_bytes[i]), add(static_cast<int64_t>(ref.sizes.size()));
      for (const int64_t size : ref.sizes) add(size);
      for (const int64_t stride : ref.strides) add(stride);
    }
    for (const std::string& claim : measured.refuted) text += "\n" + claim;
    saved.emplace(signature, std::move(text));
  }
  return saved;
}

void Profile::load(const std::map<std::string, std::string>& saved) {
  for (const auto& [signature, text] : saved) {
    std::istringstream in(text);
    Measurement measured;
    size_t count = 0;
    in >> measured.time_ps >> measured.draws >> measured.is_repeatable >> measured.is_any_thread;
    in >> count;
    for (size_t i = 0; in && i < count; ++i) {
      MeasuredRequest request;
      in >> request.size_bytes >> request.live.begin >> request.live.end >> request.result;
      measured.requests.push_back(request);
    }
    in >> count;
    for (size_t i = 0; in && i < count; ++i) {
      TensorRef ref;
      int dtype = 0;
      int64_t bytes = 0;
      size_t dims = 0;
      in >> ref.storage >> ref.offset >> dtype >> bytes >> dims;
      ref.dtype = static_cast<c10::ScalarType>(dtype);
      for (auto* list : {&ref.sizes, &ref.strides}) {
        for (size_t d = 0; in && d < dims; ++d) in >> list->emplace_back();
      }
      measured.results.push_back(std::move(ref));
      measured.result_bytes.push_back(bytes);
    }
    if (!in) continue;
    std::string claim;
    std::getline(in, claim);
    while (std::getline(in, claim)) measured.refuted.push_back(claim);
    known_.insert_or_assign(signature, std::move(measured));
  }
}

}  // namespace fitstep::torch_side
