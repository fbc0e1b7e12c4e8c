#include "fitstep/run/file_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

FileCopies::FileCopies(const LaneCopies& copies, std::shared_ptr<DiskFile> file)
    : copies_(copies), file_(std::move(file)) {
  for (const LaneCopy& copy : copies_.of(Lane::DiskWrite)) {
    const auto residency = static_cast<size_t>(copy.file_residency);
    records_.resize(std::max(records_.size(), residency + 1));
    if (copy.code == Code::None) continue;
    records_[residency].pieces.resize(file_->pieces_of(copy.size_bytes));
  }
}

Status FileCopies::copy(Lane lane, int32_t position) {
  const LaneCopy& copy = copies_.of(lane)[static_cast<size_t>(position)];
  return lane == Lane::DiskWrite ? write(copy) : read(copy);
}

Status FileCopies::write(const LaneCopy& copy) {
  Record& record = record_of(copy);
  if (copy.code != Code::None) {
    return file_->write_coded(copy.code, copy.source, copy.file_offset_bytes, copy.size_bytes,
                              record.pieces);
  }
  FITSTEP_TRY(record.checksum, file_->write(copy.source, copy.file_offset_bytes, copy.size_bytes));
  return Done{};
}

Status FileCopies::read(const LaneCopy& copy) {
  Record& record = record_of(copy);
  if (copy.code != Code::None) {
    return file_->read_coded(copy.code, copy.target, copy.file_offset_bytes, copy.size_bytes,
                             record.pieces);
  }
  return file_->read(copy.target, copy.file_offset_bytes, copy.size_bytes, record.checksum);
}

}  // namespace fitstep
