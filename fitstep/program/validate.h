// validate() for a file reader: it also says which part of the program is wrong.
#pragma once

#include <cstdint>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {

// A storage, or an op, or a form of that op; none: the program as a whole.
struct ProgramPlace {
  StorageId storage;
  OpId op;
  int32_t form = -1;
};

// As validate(program). After an error `place` is the part that is wrong.
Status validate(const Program& program, ProgramPlace& place);

}  // namespace fitstep
