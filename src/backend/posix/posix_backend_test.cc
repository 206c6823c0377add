#include "backend/posix/posix_backend.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/conformance/scenarios.h"

namespace onggi::backend {
namespace {

namespace fs = std::filesystem;

class Scratch {
 public:
  Scratch() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~Scratch() {
    ::umount(path_.c_str());
    fs::remove_all(path_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Scratch(Scratch&&) = delete;
  Scratch& operator=(Scratch&&) = delete;

  const std::string& path() const { return path_; }
  std::unique_ptr<Backend> open() const {
    return open_posix_backend({.backend = "posix", .options = {{"path", path_ + "/volume"}}})
        .value();
  }

 private:
  std::string path_ = "/var/tmp/onggi-posix-XXXXXX";  // a disk, where /tmp may be memory
};

RelPath at(std::string_view text) {
  return RelPath::parse(text).value();
}

class PosixBackendTest : public testing::TestWithParam<Scenario> {};

TEST_P(PosixBackendTest, Conforms) {
  const Scratch scratch;
  GetParam().run(*scratch.open());
}

INSTANTIATE_TEST_SUITE_P(Scenarios, PosixBackendTest, testing::ValuesIn(scenarios()));

// A vfolder, seen through the backend and through the file system.
class PosixFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = scratch_.open();
    ASSERT_TRUE(backend_->create_folder(id_, 0775));
    folder_ = backend_->open_folder(id_).value();
    const std::string hex = id_.id.hex();
    path_ = fs::path(scratch_.path()) / "volume" / id_.quota_scope.hex() / hex.substr(0, 2) /
            hex.substr(2, 2) / hex.substr(4);
  }

  void write(const fs::path& path, std::string_view text) const {
    fs::create_directories((path_ / path).parent_path());
    std::ofstream(path_ / path) << text;
  }

  Scratch scratch_;
  const FolderId id_{Uuid::random(), Uuid::random()};
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Folder> folder_;
  fs::path path_;
};

TEST_F(PosixFolderTest, LiesWhereBackendAiWouldPutIt) {
  EXPECT_TRUE(fs::is_directory(path_));
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0775));
  std::ifstream version(fs::path(scratch_.path()) / "volume/version.txt");
  std::string text;
  version >> text;
  EXPECT_EQ(text, "3");
}

TEST_F(PosixFolderTest, NeverFollowsALinkOut) {
  const fs::path secret = fs::path(scratch_.path()) / "secret";
  fs::create_directories(secret);
  std::ofstream(secret / "file") << "secret";
  write("inside/file", "mine");
  fs::create_directory_symlink(secret, path_ / "absolute");
  fs::create_directory_symlink("../../../../../../secret", path_ / "relative");
  fs::create_symlink(secret / "file", path_ / "file_link");
  fs::create_directory_symlink("/proc/self/root", path_ / "magic");
  fs::create_symlink("loop", path_ / "loop");
  fs::create_symlink("inside/file", path_ / "good");

  for (const char* path :
       {"absolute/file", "relative/file", "file_link", "loop", "magic/etc/hostname"}) {
    const auto opened = folder_->open(at(path));
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code(), ErrorCode::invalid_argument) << path;
  }
  EXPECT_TRUE(folder_->open(at("good"))) << "a link that stays inside is followed";
  EXPECT_FALSE(folder_->list(at("absolute"), {}));
  EXPECT_FALSE(folder_->remove(at("absolute/file"), false));
  EXPECT_FALSE(folder_->move(at("inside/file"), at("absolute/new"), {}));
  EXPECT_FALSE(folder_->make_directory(at("relative/new"), true));
  const auto staged = folder_->stage(Uuid::random(), true, 0).value();
  EXPECT_FALSE(staged->commit(at("absolute/file"), {}));
  EXPECT_FALSE(fs::exists(secret / "new"));

  EXPECT_EQ(folder_->stat(at("file_link"))->kind, FileKind::symlink);
  EXPECT_TRUE(folder_->remove(at("file_link"), false)) << "the link, not its target";
  EXPECT_EQ(folder_->usage()->symlinks, 5U);
  ASSERT_TRUE(folder_->remove(at("inside"), true));
  ASSERT_TRUE(backend_->remove_folder(id_));
  EXPECT_TRUE(fs::exists(secret / "file"));
}

// Somebody swaps a directory for a link to the outside while others use it (threat model, row 3).
TEST_F(PosixFolderTest, ASwapBetweenDirectoryAndLinkNeverLeadsOut) {
  const fs::path secret = fs::path(scratch_.path()) / "secret";
  fs::create_directories(secret);
  std::ofstream(secret / "file") << "secret";
  write("d/file", "mine");
  fs::create_directory_symlink(secret, path_ / "link");
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) {
      ::renameat2(AT_FDCWD, (path_ / "d").c_str(), AT_FDCWD, (path_ / "link").c_str(),
                  RENAME_EXCHANGE);
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const auto handle = folder_->open(at("d/file"));
    if (!handle) continue;
    std::string text((*handle)->info().size_bytes, '\0');
    ASSERT_TRUE((*handle)->read(0, std::as_writable_bytes(std::span(text))));
    ASSERT_EQ(text, "mine");
  }
  stop = true;
  swapper.join();
}

TEST_F(PosixFolderTest, CountsAFileWithSeveralLinksOnce) {
  write("a", "12345");
  fs::create_hard_link(path_ / "a", path_ / "b");
  const auto usage = folder_->usage().value();
  EXPECT_EQ(usage.files, 2U);
  EXPECT_EQ(usage.size_bytes, 5U);
}

TEST_F(PosixFolderTest, HidesOnlyItsOwnStaging) {
  ASSERT_TRUE(folder_->stage(Uuid::random(), true, 0).value()->flush());
  write("sub/.upload/f", "x");
  const auto page = folder_->list(RelPath(), {.recursive = true}).value();
  ASSERT_EQ(page.entries.size(), 3U);
  EXPECT_EQ(page.entries[1].path, "sub/.upload");
}

TEST_F(PosixFolderTest, AFifoDoesNotHangAReader) {
  ASSERT_EQ(::mkfifo((path_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(folder_->open(at("fifo")));
  EXPECT_EQ(folder_->stat(at("fifo"))->kind, FileKind::other);
}

TEST_F(PosixFolderTest, RemovesDeepTreesAndLockedDirectories) {
  fs::path deep;
  for (int i = 0; i < 300; ++i) deep /= "d";
  write("tree" / deep / "f", "x");
  write("tree/locked/f", "x");
  fs::permissions(path_ / "tree/locked", fs::perms::none);
  ASSERT_TRUE(folder_->remove(at("tree"), true));
  EXPECT_FALSE(fs::exists(path_ / "tree"));
}

TEST_F(PosixFolderTest, FinishesARemovalThatACrashCutShort) {
  write("a/b", "x");
  const fs::path trash = fs::path(scratch_.path()) / "volume/.onggi-trash";
  fs::create_directories(trash);
  fs::rename(path_, trash / id_.id.hex());  // where the crash left it
  folder_.reset();
  backend_ = scratch_.open();
  ASSERT_TRUE(backend_->recover());
  EXPECT_TRUE(fs::is_empty(trash));
  EXPECT_TRUE(backend_->list_folders()->empty());
}

TEST_F(PosixFolderTest, SpaceReservedButNotFilledIsGivenBack) {
  const auto staged = folder_->stage(Uuid::random(), true, 64 << 20).value();
  staged->buffer()[0] = std::byte{1};
  ASSERT_TRUE(staged->commit_buffer(1));
  ASSERT_TRUE(staged->commit(at("f"), {}));
  EXPECT_LT(folder_->usage()->allocated_bytes, 1U << 20);
}

TEST(PosixBackendFullDiskTest, SaysThatTheStorageIsFull) {
  const Scratch scratch;
  if (::mount("tmpfs", scratch.path().c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  }
  const auto backend = scratch.open();
  const FolderId id{Uuid::random(), Uuid::random()};
  ASSERT_TRUE(backend->create_folder(id, 0775));
  const auto folder = backend->open_folder(id).value();
  EXPECT_EQ(folder->stage(Uuid::random(), true, 1ULL << 40).error().code(),
            ErrorCode::storage_full);
  const auto staged = folder->stage(Uuid::random(), true, 0).value();
  Status status;
  for (int i = 0; i < 100 && status; ++i) status = staged->commit_buffer(staged->buffer().size());
  if (status) status = staged->flush();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::storage_full);
  EXPECT_TRUE(staged->discard());
}

TEST(PosixBackendOptionsTest, NeedsAnAbsolutePath) {
  EXPECT_FALSE(open_posix_backend({.backend = "posix"}));
  EXPECT_FALSE(open_posix_backend({.backend = "posix", .options = {{"path", "relative"}}}));
  EXPECT_EQ(open_posix_backend({.backend = "posix", .options = {{"path", "/nowhere/at/all"}}})
                .error()
                .code(),
            ErrorCode::not_found);
}

}  // namespace
}  // namespace onggi::backend
