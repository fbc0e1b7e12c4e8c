// validate() for a reader, which knows on which line each part of the program stands.
#pragma once

#include <cstdint>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {

// A storage, or an op; or a form of that op. None for what is wrong as a whole.
struct ProgramPlace {
  StorageId storage;
  OpId op;
  int32_t form = -1;
};

// As validate(program); where it fails, `place` says what is wrong.
Status validate(const Program& program, ProgramPlace& place);

}  // namespace fitstep
