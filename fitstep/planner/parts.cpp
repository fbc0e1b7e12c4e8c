#include "fitstep/planner/parts.h"

#ifdef FITSTEP_ABLATION
#include <cstdlib>
#include <string>

namespace fitstep {

bool has(std::string_view part) {
  static const char* const without = std::getenv("FITSTEP_WITHOUT");
  if (without == nullptr) return true;
  const std::string all = std::string(",") + without + ",";
  return all.find("," + std::string(part) + ",") == std::string::npos;
}

}  // namespace fitstep
#endif
