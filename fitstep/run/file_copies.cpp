#include "fitstep/run/file_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/code_samples.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

FileCopies::FileCopies(const LaneCopies& copies, std::shared_ptr<DiskFile> file, int64_t part_bytes)
    : copies_(copies), file_(std::move(file)), part_bytes_(part_bytes) {
  std::set<Code> codes;
  for (const LaneCopy& copy : copies_.of(Lane::DiskWrite)) {
    const auto residency = static_cast<size_t>(copy.residency_below);
    records_.resize(std::max(records_.size(), residency + 1));
    sizes_.push_back({.size_bytes = copy.size_bytes});
    if (copy.code != Code::None) codes.insert(copy.code);
    for (int64_t begin = 0; begin < copy.size_bytes;) {
      const int64_t size_bytes = std::min(part_bytes_, copy.size_bytes - begin);
      Record& record = records_[residency].emplace_back();
      if (copy.code != Code::None) record.pieces.resize(file_->pieces_of(size_bytes));
      begin += size_bytes;
    }
  }
  for (const Code code : codes) file_->prepare(code);
}

Status FileCopies::write(int32_t position, int64_t begin_bytes, std::span<const char> part) {
  const LaneCopy& copy = copies_.of(Lane::DiskWrite)[static_cast<size_t>(position)];
  CopySize& size = sizes_[static_cast<size_t>(position)];
  const auto size_bytes = static_cast<int64_t>(part.size());
  const int64_t offset_bytes = copy.file_offset_bytes + begin_bytes;
  if (begin_bytes == 0) size.written_bytes = 0;
  if (part.empty()) return Done{};
  samples_.look(part, begin_bytes == 0, size);
  Record& record = record_of(copy, begin_bytes);
  if (copy.code == Code::None) {
    size.written_bytes += whole_blocks(size_bytes);
    FITSTEP_TRY(record.checksum, file_->write(part.data(), offset_bytes, size_bytes));
    return Done{};
  }
  FITSTEP_TRY_STATUS(
      file_->write_coded(copy.code, part.data(), offset_bytes, size_bytes, record.pieces));
  for (const CodedPiece& piece : record.pieces)
    size.written_bytes += whole_blocks(piece.size_bytes);
  return Done{};
}

Status FileCopies::read(int32_t position, int64_t begin_bytes, std::span<char> part) {
  if (part.empty()) return Done{};
  const LaneCopy& copy = copies_.of(Lane::DiskRead)[static_cast<size_t>(position)];
  Record& record = record_of(copy, begin_bytes);
  const auto size_bytes = static_cast<int64_t>(part.size());
  const int64_t offset_bytes = copy.file_offset_bytes + begin_bytes;
  if (copy.code == Code::None) {
    return file_->read(part.data(), offset_bytes, size_bytes, record.checksum);
  }
  return file_->read_coded(copy.code, part.data(), offset_bytes, size_bytes, record.pieces);
}

}  // namespace fitstep
