#include "fitstep/run/file_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {
namespace {

constexpr int64_t kSampleBytes = int64_t{1} << 15;  // Of each ...
constexpr int64_t kSampledEvery = int64_t{1} << 19;

int64_t whole_blocks(int64_t size_bytes) {
  return (size_bytes + kDiskBlockBytes - 1) / kDiskBlockBytes * kDiskBlockBytes;
}

}  // namespace

FileCopies::FileCopies(const LaneCopies& copies, std::shared_ptr<DiskFile> file)
    : copies_(copies), file_(std::move(file)) {
  for (const LaneCopy& copy : copies_.of(Lane::DiskWrite)) {
    const auto residency = static_cast<size_t>(copy.file_residency);
    records_.resize(std::max(records_.size(), residency + 1));
    if (copy.code != Code::None)
      records_[residency].pieces.resize(file_->pieces_of(copy.size_bytes));
    sizes_.push_back({.size_bytes = copy.size_bytes});
  }
}

Status FileCopies::copy(Lane lane, int32_t position) {
  const auto index = static_cast<size_t>(position);
  const LaneCopy& copy = copies_.of(lane)[index];
  return lane == Lane::DiskWrite ? write(copy, sizes_[index]) : read(copy);
}

Status FileCopies::write(const LaneCopy& copy, FileCopySize& size) {
  Record& record = record_of(copy);
  if (is_sampling_) {
    size.zero_value_bytes = sample(Code::ZeroValue, copy);
    size.zstd_bytes = sample(Code::Zstd, copy);
  }
  if (copy.code == Code::None) {
    size.file_bytes = whole_blocks(copy.size_bytes);
    FITSTEP_TRY(record.checksum,
                file_->write(copy.source, copy.file_offset_bytes, copy.size_bytes));
    return Done{};
  }
  FITSTEP_TRY_STATUS(file_->write_coded(copy.code, copy.source, copy.file_offset_bytes,
                                        copy.size_bytes, record.pieces));
  size.file_bytes = 0;
  for (const CodedPiece& piece : record.pieces) size.file_bytes += whole_blocks(piece.size_bytes);
  return Done{};
}

Status FileCopies::read(const LaneCopy& copy) {
  Record& record = record_of(copy);
  if (copy.code == Code::None) {
    return file_->read(copy.target, copy.file_offset_bytes, copy.size_bytes, record.checksum);
  }
  return file_->read_coded(copy.code, copy.target, copy.file_offset_bytes, copy.size_bytes,
                           record.pieces);
}

// What the code makes of the whole if the rest is like the samples.
int64_t FileCopies::sample(Code code, const LaneCopy& copy) {
  sampled_.resize(static_cast<size_t>(most_coded_bytes(code, kSampleBytes)));
  int64_t plain_bytes = 0;
  int64_t coded_bytes = 0;
  for (int64_t begin = 0; begin < copy.size_bytes; begin += kSampledEvery) {
    const int64_t size_bytes = std::min(kSampleBytes, copy.size_bytes - begin);
    const std::span<const char> part(copy.source + begin, static_cast<size_t>(size_bytes));
    const int64_t coded = sampler_.encode(code, part, sampled_);
    plain_bytes += size_bytes;
    coded_bytes += coded < 0 ? size_bytes : coded;
  }
  const double share = static_cast<double>(coded_bytes) / static_cast<double>(plain_bytes);
  return std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(copy.size_bytes)));
}

}  // namespace fitstep
