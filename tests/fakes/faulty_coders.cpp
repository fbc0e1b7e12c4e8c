#include "tests/fakes/faulty_coders.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"

namespace fitstep {

class FaultyCoders::Faulty final : public Coder {
 public:
  explicit Faulty(FaultyCoders& of) : of_(of) {}

  int64_t encode(Code code, std::span<const char> from, std::span<char> to) override {
    if (goes_wrong(CoderCall::Encode)) return -1;
    const int64_t size_bytes = Coder::encode(code, from, to);
    of_.coded_ += size_bytes >= 0 ? 1 : 0;
    return size_bytes;
  }

  bool decode(Code code, std::span<const char> from, std::span<char> to) override {
    return !goes_wrong(CoderCall::Decode) && Coder::decode(code, from, to);
  }

 private:
  bool goes_wrong(CoderCall kind) {
    Count& count = of_.counts_[static_cast<size_t>(kind)];
    return count.calls++ == count.at;
  }

  FaultyCoders& of_;
};

CoderMaker FaultyCoders::maker() {
  return [this] { return std::make_unique<Faulty>(*this); };
}

}  // namespace fitstep
