#include "fitstep_torch/profile/requests.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <utility>

namespace fitstep::torch_side {

std::vector<MeasuredRequest> requests_from(const std::vector<MemoryEvent>& events,
                                           const std::vector<at::Tensor>& results) {
  std::vector<MeasuredRequest> requests;
  std::vector<void*> address;
  const auto end = static_cast<Tick>(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    const auto now = static_cast<Tick>(i);
    if (!events[i].is_release) {
      for (size_t k = 0; k < requests.size(); ++k) {  // Its release was not logged.
        if (address[k] == events[i].address && requests[k].live.end == end)
          requests[k].live.end = now;
      }
      requests.push_back({.size_bytes = events[i].size_bytes, .live = {.begin = now, .end = end}});
      address.push_back(events[i].address);
      continue;
    }
    for (size_t k = requests.size(); k-- > 0;) {
      if (address[k] != events[i].address || requests[k].live.end != end) continue;
      requests[k].live.end = now;
      break;
    }
  }
  for (size_t k = 0; k < requests.size(); ++k) {
    if (requests[k].live.end != end || address[k] == nullptr) continue;
    for (size_t r = 0; r < results.size(); ++r) {
      if (results[r].defined() && results[r].storage().data() == address[k])
        requests[k].result = static_cast<int32_t>(r);
    }
  }
  return requests;
}

std::vector<MeasuredRequest> requests_of_all_threads(const std::vector<MeasuredRequest>& of_owner,
                                                     const std::vector<MemoryEvent>& events) {
  struct Use {
    std::map<int32_t, int64_t> live;  // By thread.
    int64_t most = 0;
    bool is_shared = false;
  };
  std::map<int64_t, Use> uses;                           // By size.
  std::map<void*, std::pair<int64_t, int32_t>> holders;  // By address: size and thread.
  for (const MemoryEvent& event : events) {
    if (!event.is_release) {
      Use& use = uses[event.size_bytes];
      use.most = std::max(use.most, ++use.live[event.thread]);
      use.is_shared = use.is_shared || event.thread != 0;
      holders[event.address] = {event.size_bytes, event.thread};
    } else if (const auto held = holders.find(event.address); held != holders.end()) {
      --uses[held->second.first].live[held->second.second];
      holders.erase(held);
    }
  }
  std::vector<MeasuredRequest> requests;
  for (const MeasuredRequest& request : of_owner) {
    if (request.result < 0) continue;
    requests.push_back(request);
    requests.back().live = {.begin = 0, .end = 1};
  }
  for (const auto& [size_bytes, use] : uses) {
    const int64_t blocks = use.most * (use.is_shared ? at::get_num_threads() : 1);
    requests.insert(requests.end(), static_cast<size_t>(blocks),
                    {.size_bytes = size_bytes, .live = {.begin = 0, .end = 1}});
  }
  return requests;
}

void fill_form(Form& form, const TorchCall& call, const Measurement& measured) {
  const std::vector<TensorRef> results = tensors_of(call.results);
  form.time_ps = measured.time_ps;
  form.requests.clear();
  for (const MeasuredRequest& request : measured.requests) {
    Request made{.size_bytes = request.size_bytes,
                 .live = request.live,
                 .output = {},
                 .is_any_thread = measured.is_any_thread};
    if (request.result >= 0) {
      const StorageId id(results[static_cast<size_t>(request.result)].storage);
      const bool is_written = std::any_of(form.writes.begin(), form.writes.end(),
                                          [id](const Write& w) { return w.storage == id; });
      if (is_written) made.output = id;
    }
    form.requests.push_back(made);
  }
}

bool same_sequence(const std::vector<MeasuredRequest>& a, const std::vector<MeasuredRequest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size_bytes == y.size_bytes && x.live == y.live && x.result == y.result;
  });
}

}  // namespace fitstep::torch_side
