// Pieces of 8 KiB; the storage of most tests is 20,000 bytes: three pieces, five blocks.
#include "fitstep/run/disk_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "tests/fakes/faulty_files.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

constexpr int64_t kStorage = 20'000;
constexpr int64_t kBlocks = 5 * kDiskBlockBytes;

std::vector<char> pattern(int64_t size_bytes, int seed) {
  std::vector<char> made;
  for (int64_t i = 0; i < size_bytes; ++i) {
    made.push_back(static_cast<char>(static_cast<unsigned char>(i * 7 + i / 251 + seed)));
  }
  return made;
}

struct Opened {
  std::shared_ptr<FaultyFiles> calls;
  std::shared_ptr<DiskFile> file;
};

Opened open_file(const FaultyFilesOptions& faults = {}, bool has_checksums = true) {
  const auto calls = std::make_shared<FaultyFiles>(faults);
  auto file = DiskFile::open({.folder = empty_folder("fitstep_disk_file_test"),
                              .piece_bytes = 8192,
                              .has_checksums = has_checksums,
                              .calls = calls});
  EXPECT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE((*file)->reserve(3 * kBlocks).has_value());
  return {calls, *file};
}

// What is read at `offset_bytes`, where `written` was written; an error's message.
std::string round_trip(DiskFile& file, int64_t offset_bytes, const std::vector<char>& written) {
  const auto size_bytes = static_cast<int64_t>(written.size());
  const Result<uint64_t> checksum = file.write(written.data(), offset_bytes, size_bytes);
  if (!checksum.has_value()) return checksum.error().message;
  std::vector<char> read(written.size() + 1, '-');
  const Status status = file.read(read.data(), offset_bytes, size_bytes, *checksum);
  if (!status.has_value()) return status.error().message;
  if (read.back() != '-') return "bytes behind the storage were written";
  read.pop_back();
  return read == written ? "" : "other bytes";
}

TEST(DiskFile, GivesBackStoragesOfEverySizeFromEveryAddress) {
  const Opened opened = open_file();
  for (const int64_t size_bytes : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4096},
                                   int64_t{8192}, int64_t{8193}, kStorage}) {
    EXPECT_EQ(round_trip(*opened.file, kBlocks, pattern(size_bytes, 3)), "") << size_bytes;
  }
  const std::vector<char> bytes = pattern(kStorage + 64, 1);
  for (int64_t begin = 1; begin < 64; begin += 21) {  // As odd as the address of a block's middle.
    const std::vector<char> part(bytes.begin() + begin, bytes.end());
    EXPECT_EQ(round_trip(*opened.file, 0, part), "");
  }
}

// Words of 4 bytes, of which every second one is zero.
std::vector<char> sparse(int64_t size_bytes, int seed) {
  std::vector<char> made = pattern(size_bytes, seed);
  for (size_t i = 0; i < made.size(); ++i) {
    if (i / 4 % 2 == 0) made[i] = 0;
    if (i / 4 % 2 == 1 && i % 4 == 0) made[i] = 1;
  }
  return made;
}

// As round_trip(), in a code.
std::string coded_round_trip(Code code, DiskFile& file, const std::vector<char>& written) {
  const auto size_bytes = static_cast<int64_t>(written.size());
  std::vector<CodedPiece> pieces(file.pieces_of(size_bytes));
  const Status wrote = file.write_coded(code, written.data(), kBlocks, size_bytes, pieces);
  if (!wrote.has_value()) return wrote.error().message;
  std::vector<char> read(written.size() + 1, '-');
  const Status status = file.read_coded(code, read.data(), kBlocks, size_bytes, pieces);
  if (!status.has_value()) return status.error().message;
  if (read.back() != '-') return "bytes behind the storage were written";
  read.pop_back();
  return read == written ? "" : "other bytes";
}

TEST(DiskFile, GivesBackWhatItHasInACode) {
  const Opened opened = open_file();
  for (const Code code : {Code::ZeroValue, Code::Zstd}) {
    for (const int64_t size_bytes : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4097},
                                     int64_t{8192}, int64_t{8193}, kStorage}) {
      EXPECT_EQ(coded_round_trip(code, *opened.file, sparse(size_bytes, 5)), "") << size_bytes;
      EXPECT_EQ(coded_round_trip(code, *opened.file, pattern(size_bytes, 5)), "") << size_bytes;
      EXPECT_EQ(coded_round_trip(code, *opened.file,
                                 std::vector<char>(static_cast<size_t>(size_bytes), 0)),
                "")
          << size_bytes;
    }
  }
}

// 20,000 bytes are pieces of 8192, 8192 and 3616; 8192 with every second word zero are 4096 + 256
// in the code, which is no block less, and 5/8 of them zero are 3072 + 256: one block.
TEST(DiskFile, WritesFewerBlocksInACodeAndAsManyWhereThatSavesNone) {
  const Opened opened = open_file();
  EXPECT_EQ(coded_round_trip(Code::ZeroValue, *opened.file, sparse(kStorage, 1)), "");
  EXPECT_EQ(opened.file->traffic().written_bytes, kBlocks);
  EXPECT_EQ(opened.file->traffic().read_bytes, kBlocks);
  std::vector<char> sparser = sparse(kStorage, 1);
  for (size_t i = 0; i < sparser.size(); ++i) {
    if (i / 4 % 8 == 1) sparser[i] = 0;
  }
  EXPECT_EQ(coded_round_trip(Code::ZeroValue, *opened.file, sparser), "");
  EXPECT_EQ(opened.file->traffic().written_bytes, kBlocks + 3 * kDiskBlockBytes);
  EXPECT_EQ(opened.file->traffic().read_bytes, kBlocks + 3 * kDiskBlockBytes);
}

// With checksums that is found before anything is decoded.
TEST(DiskFile, NoticesOtherBytesInACode) {
  for (const bool has_checksums : {true, false}) {
    const Opened opened = open_file({.fault = FileFault::OtherBytes}, has_checksums);
    const std::vector<char> zeros(8192, 0);
    for (const Code code : {Code::ZeroValue, Code::Zstd}) {
      opened.calls->set_at(opened.calls->calls() + 1);  // The first read.
      const std::string message = coded_round_trip(code, *opened.file, zeros);
      const char* expected = has_checksums ? "not what was written" : "cannot be decoded";
      EXPECT_NE(message.find(expected), std::string::npos) << message;
    }
  }
}

TEST(DiskFile, LeavesItsNeighboursAlone) {
  const Opened opened = open_file();
  std::vector<std::vector<char>> storages;
  std::vector<uint64_t> checksums;
  for (int i = 0; i < 3; ++i) {
    storages.push_back(pattern(kStorage, i));
    checksums.push_back(opened.file->write(storages.back().data(), i * kBlocks, kStorage).value());
  }
  std::vector<char> read(static_cast<size_t>(kStorage));
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_TRUE(opened.file->read(read.data(), i * kBlocks, kStorage, checksums[at]).has_value());
    EXPECT_EQ(read, storages[at]);
  }
  EXPECT_EQ(opened.file->traffic().written_bytes, 3 * kBlocks);
  EXPECT_EQ(opened.file->traffic().read_bytes, 3 * kBlocks);
}

TEST(DiskFile, ReadsWhileItWrites) {
  const Opened opened = open_file();
  const std::vector<char> first = pattern(kStorage, 1);
  const uint64_t checksum = opened.file->write(first.data(), 0, kStorage).value();
  std::thread writer([&] {
    const std::vector<char> second = pattern(kStorage, 2);
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(opened.file->write(second.data(), kBlocks, kStorage).has_value());
    }
  });
  std::vector<char> read(static_cast<size_t>(kStorage));
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(opened.file->read(read.data(), 0, kStorage, checksum).has_value());
    EXPECT_EQ(read, first);
  }
  writer.join();
}

TEST(DiskFile, IsInItsFolderForNobodyElse) {
  const Opened opened = open_file();
  EXPECT_EQ(round_trip(*opened.file, 0, pattern(kStorage, 1)), "");
  EXPECT_TRUE(std::filesystem::is_empty(testing::TempDir() + "fitstep_disk_file_test"));
}

TEST(DiskFile, GoesThroughThePageCacheWhereItMustAndLeavesNothingThere) {
  const Opened direct = open_file();
  EXPECT_EQ(round_trip(*direct.file, 0, pattern(kStorage, 1)), "");
  const Opened buffered = open_file({.can_be_direct = false});
  EXPECT_FALSE(buffered.file->is_direct());
  EXPECT_EQ(round_trip(*buffered.file, 0, pattern(kStorage, 1)), "");
  EXPECT_EQ(buffered.calls->forgotten(), 2) << "after the write and after the read";
  EXPECT_EQ(direct.calls->forgotten(), direct.file->is_direct() ? 0 : 2);
}

TEST(DiskFile, WritesItsBlocksWhereTheFileSystemDoesNotAllocate) {
  const Opened opened = open_file({.can_allocate = false});
  EXPECT_EQ(opened.file->size_bytes(), 3 * kBlocks);
  EXPECT_EQ(opened.file->traffic().written_bytes, 3 * kBlocks);
  EXPECT_EQ(round_trip(*opened.file, 2 * kBlocks, pattern(kStorage, 1)), "");
}

TEST(DiskFile, SaysWhereItCannotBeAndHowMuchRoomThereIs) {
  const auto nowhere = DiskFile::open({.folder = "/no/such/folder"});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_NE(nowhere.error().message.find("/no/such/folder (No such file"), std::string::npos);

  const Opened opened = open_file();
  const Status full = opened.file->reserve(int64_t{1} << 50);
  ASSERT_FALSE(full.has_value());
  EXPECT_NE(full.error().message.find("1.00 PiB"), std::string::npos) << full.error().message;
  EXPECT_NE(full.error().message.find("fitstep_disk_file_test, which has"), std::string::npos);
  EXPECT_EQ(opened.file->size_bytes(), 3 * kBlocks) << "it is as it was";
  EXPECT_EQ(round_trip(*opened.file, 0, pattern(kStorage, 1)), "");
  EXPECT_FALSE(DiskFile::open({.folder = "/tmp", .piece_bytes = 1000}).has_value());
  EXPECT_FALSE(DiskFile::open({.folder = "/tmp", .pieces = 0}).has_value());
}

TEST(DiskFile, IsNotAForkedChilds) {
  const Opened opened = open_file();
  const pid_t child = fork();
  if (child == 0) {
    const Status grown = opened.file->reserve(4 * kBlocks);
    _exit(grown.has_value() || opened.file->size_bytes() != 3 * kBlocks ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(round_trip(*opened.file, 0, pattern(kStorage, 1)), "");
}

// Every call from the file's making to its end, on file systems that can do less and less.
TEST(DiskFile, SaysWhichCallFailedForEveryN) {
  for (int lacks = 0; lacks < 8; ++lacks) {
    const FaultyFilesOptions cannot = {.error = ENOSPC,
                                       .can_be_direct = (lacks & 1) == 0,
                                       .can_be_unnamed = (lacks & 2) == 0,
                                       .can_allocate = (lacks & 4) == 0};
    int64_t n = 0;
    for (; n < 100; ++n) {
      FaultyFilesOptions options = cannot;
      options.at = n;
      const auto calls = std::make_shared<FaultyFiles>(options);
      auto file = DiskFile::open(
          {.folder = empty_folder("fitstep_disk_file_test"), .piece_bytes = 8192, .calls = calls});
      std::string message = file.has_value() ? "" : file.error().message;
      if (message.empty()) {
        const Status reserved = (*file)->reserve(kBlocks);
        message = reserved.has_value() ? round_trip(**file, 0, pattern(kStorage, 1))
                                       : reserved.error().message;
      }
      if (calls->calls() <= n) break;
      if (!cannot.can_be_direct && !cannot.can_be_unnamed && n == 3) {
        EXPECT_EQ(message, "");  // Unlinks what the refused call may have made.
        continue;
      }
      EXPECT_NE(message.find("No space left"), std::string::npos) << n << ": " << message;
      if (!file.has_value() || (*file)->size_bytes() == 0) continue;
      EXPECT_EQ(round_trip(**file, 0, pattern(kStorage, 2)), "") << "it works again";
    }
    EXPECT_GT(n, 7) << lacks;
    EXPECT_LT(n, 100) << lacks;
  }
}

TEST(DiskFile, GoesOnAfterShortAndInterruptedCalls) {
  for (const FileFault fault : {FileFault::Short, FileFault::Interrupted}) {
    for (int64_t n = 0; n < 7; ++n) {
      const Opened opened = open_file({.fault = fault});
      opened.calls->set_at(opened.calls->calls() + n);
      EXPECT_EQ(round_trip(*opened.file, 0, pattern(kStorage, 1)), "") << n;
    }
  }
}

TEST(DiskFile, NoticesEveryOtherByteThatComesBack) {
  for (int64_t n = 0; n < 6; ++n) {  // Three writes, three reads.
    const Opened opened = open_file({.fault = FileFault::OtherBytes});
    opened.calls->set_at(opened.calls->calls() + n);
    const std::string message = round_trip(*opened.file, 0, pattern(kStorage, 1));
    EXPECT_NE(message.find("are not what was written there"), std::string::npos) << message;
    EXPECT_EQ(round_trip(*opened.file, 0, pattern(kStorage, 1)), "");
  }
  const Opened trusting = open_file({.fault = FileFault::OtherBytes}, false);
  trusting.calls->set_at(trusting.calls->calls());
  EXPECT_EQ(round_trip(*trusting.file, 0, pattern(kStorage, 1)), "other bytes");
}

}  // namespace
}  // namespace fitstep
