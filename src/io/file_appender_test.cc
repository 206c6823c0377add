#include "io/file_appender.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace onggi::io {
namespace {

class FileAppenderTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(directory_.data()), nullptr); }
  void TearDown() override {
    ::unlink(path().c_str());
    ::rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/file"; }

  std::unique_ptr<FileAppender> open(std::uint64_t size) {
    FileDescriptor file(::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    return FileAppender::open(std::move(file), size,
                              {.size_hint = GetParam(), .direct_bytes_min = 8 << 20})
        .value();
  }

  // Appends bytes [from, to) of an endless pattern, in pieces of odd sizes.
  static void append(FileAppender& appender, std::uint64_t from, std::uint64_t to) {
    std::uint64_t piece = 1;
    while (from < to) {
      const auto buffer = appender.buffer();
      const std::uint64_t n = std::min({piece, to - from, std::uint64_t{buffer.size()}});
      for (std::uint64_t i = 0; i < n; ++i) buffer[i] = pattern(from + i);
      ASSERT_TRUE(appender.advance(n));
      from += n;
      piece = piece * 3 + 1;
    }
  }

  static std::byte pattern(std::uint64_t at) {
    return static_cast<std::byte>(at * 2654435761U >> 7);
  }

  void expect_file(std::uint64_t size) const {
    const FileDescriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info{};
    ASSERT_EQ(::fstat(file.get(), &info), 0);
    ASSERT_EQ(static_cast<std::uint64_t>(info.st_size), size);
    std::vector<std::byte> bytes(size);
    ASSERT_EQ(::read(file.get(), bytes.data(), size), static_cast<ssize_t>(size));
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(bytes[i], pattern(i)) << "at " << i;
  }

 private:
  std::string directory_ = "/var/tmp/onggi-io-XXXXXX";  // a disk, where /tmp may be memory
};

TEST_P(FileAppenderTest, WritesEveryByteWhateverTheSizes) {
  for (const std::uint64_t size : {0ULL, 1ULL, 4096ULL, 4097ULL, 5'000'000ULL, 13'000'001ULL}) {
    ::unlink(path().c_str());
    const auto appender = open(0);
    append(*appender, 0, size);
    EXPECT_EQ(appender->size(), size);
    ASSERT_TRUE(appender->flush(true));
    expect_file(size);
  }
}

TEST_P(FileAppenderTest, GoesOnAfterAFlushInMidBlockAndAfterReopening) {
  {
    const auto appender = open(0);
    append(*appender, 0, 5'000);
    ASSERT_TRUE(appender->flush(true));
    expect_file(5'000);
    append(*appender, 5'000, 4'200'003);
    ASSERT_TRUE(appender->flush(false));
  }
  expect_file(4'200'003);
  const auto appender = open(4'200'003);
  append(*appender, 4'200'003, 9'000'000);
  ASSERT_TRUE(appender->flush(true));
  expect_file(9'000'000);
}

INSTANTIATE_TEST_SUITE_P(SmallAndDirect, FileAppenderTest, testing::Values(0, 64 << 20));

TEST(FileAppenderFullDiskTest, IsSaidAtTheStart) {
  FileDescriptor file(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) GTEST_SKIP() << "no /dev/shm here";
  const auto appender = FileAppender::open(std::move(file), 0, {.size_hint = 1ULL << 60});
  ASSERT_FALSE(appender);
  EXPECT_EQ(appender.error().code(), ErrorCode::storage_full);
}

// A small file system in a file, gone with the test: ext4, unlike tmpfs, does direct I/O.
class SmallDisk {
 public:
  SmallDisk() {
    if (::mkdtemp(path_.data()) == nullptr) return;
    const std::string image = path_ + "/image";
    const FileDescriptor file(::open(image.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    mounted_ = file && ::ftruncate(file.get(), 32 << 20) == 0 &&
               run("mkfs.ext4 -q -O ^has_journal " + image) &&
               ::mkdir(mount().c_str(), 0700) == 0 && run("mount -o loop " + image + " " + mount());
  }
  ~SmallDisk() {
    if (mounted_) run("umount " + mount());
    run("rm -rf " + path_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  SmallDisk(SmallDisk&&) = delete;
  SmallDisk& operator=(SmallDisk&&) = delete;

  bool mounted() const { return mounted_; }
  std::string mount() const { return path_ + "/mount"; }

 private:
  static bool run(const std::string& command) {
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): fixed words, in a test
    return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
  }

  std::string path_ = "/var/tmp/onggi-disk-XXXXXX";
  bool mounted_ = false;
};

// Appends until the disk says no.
void expect_full_in_mid_stream(std::uint64_t hint, std::uint64_t direct_bytes_min) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "a loop mount of ext4 needs root and mkfs.ext4";
  const std::string path = disk.mount() + "/file";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  auto appender = FileAppender::open(std::move(file), 0,
                                     {.size_hint = hint, .direct_bytes_min = direct_bytes_min});
  ASSERT_TRUE(appender);
  Status status;
  for (int i = 0; i < 4000 && status; ++i) {
    const auto buffer = (*appender)->buffer();
    status = (*appender)->advance(std::min<std::size_t>(buffer.size(), 100'000));
  }
  if (status) status = (*appender)->flush(true);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::storage_full);
  EXPECT_FALSE((*appender)->flush(true)) << "what was lost stays lost";
}

TEST(FileAppenderFullDiskTest, IsSaidInMidStreamThroughThePageCache) {
  expect_full_in_mid_stream(0, std::numeric_limits<std::uint64_t>::max() >> 1);
}

TEST(FileAppenderFullDiskTest, IsSaidInMidStreamByTheWritingThread) {
  expect_full_in_mid_stream(0, 1 << 20);
}

TEST(FileAppenderFullDiskTest, IsSaidWhenMoreComesThanWasReserved) {
  expect_full_in_mid_stream(8 << 20, 8 << 20);
}

TEST(FileAppenderFallbackTest, IsTakenWhereDirectIoIsRefused) {
  FileDescriptor file(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) GTEST_SKIP() << "no /dev/shm here";
  const auto appender = FileAppender::open(std::move(file), 0, {.size_hint = 9 << 20}).value();
  std::uint64_t left = 9 << 20;
  while (left > 0) {
    const auto buffer = appender->buffer();
    const std::uint64_t count = std::min<std::uint64_t>(left, buffer.size());
    ASSERT_TRUE(appender->advance(count));
    left -= count;
  }
  ASSERT_TRUE(appender->flush(true));
  struct stat info{};
  ASSERT_EQ(::fstat(appender->descriptor(), &info), 0);
  EXPECT_EQ(info.st_size, 9 << 20);
}

}  // namespace
}  // namespace onggi::io
