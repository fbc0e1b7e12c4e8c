#include "fitstep/base/check.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace fitstep {

void fail_check(std::string_view expression, std::string_view file, int line,
                const std::string& values) {
  throw InternalError(fmt::format("fitstep bug: {} is false at {}:{} ({}); please report it",
                                  expression, file, line, values));
}

}  // namespace fitstep
