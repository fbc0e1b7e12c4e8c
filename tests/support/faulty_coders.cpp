#include "tests/support/faulty_coders.h"

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
    if (is_next(false)) return -1;
    const int64_t size_bytes = Coder::encode(code, from, to);
    of_.coded_ += size_bytes >= 0 ? 1 : 0;
    return size_bytes;
  }

  bool decode(Code code, std::span<const char> from, std::span<char> to) override {
    return !is_next(true) && Coder::decode(code, from, to);
  }

 private:
  bool is_next(bool is_decoding) {
    if (of_.calls_++ != of_.at_) return false;
    of_.was_decoding_ = is_decoding;
    return true;
  }

  FaultyCoders& of_;
};

CoderMaker FaultyCoders::maker() {
  return [this] { return std::make_unique<Faulty>(*this); };
}

}  // namespace fitstep
