#include "backend/posix/posix_backend.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/conformance/scenarios.h"
#include "backend/posix/beneath.h"

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

TEST_F(PosixFolderTest, TellsTimesAsFineAsTheSystemKeepsThem) {
  const int root = folder_->descriptor().value();
  const FileDescriptor file(::openat(root, "a", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0},
                             {.tv_sec = 1'700'000'000, .tv_nsec = 123}};
  ASSERT_EQ(::futimens(file.get(), times), 0);
  struct stat s{};
  ASSERT_EQ(::fstat(file.get(), &s), 0);
  const FileInfo info = folder_->stat(at("a")).value();
  EXPECT_EQ(info.modified_ns, 1'700'000'000'000'000'123);
  EXPECT_EQ(info.changed_ns, std::int64_t{s.st_ctim.tv_sec} * 1'000'000'000 + s.st_ctim.tv_nsec);
}

TEST_F(PosixFolderTest, CountsWhatTheTreeItselfTakes) {
  const int root = folder_->descriptor().value();
  ASSERT_TRUE(folder_->make_directory(at("a/b"), true));
  ASSERT_EQ(::symlinkat("target", root, "link"), 0);
  std::uint64_t bytes = 0;
  std::uint64_t allocated = 0;
  for (const char* name : {".", "a", "a/b", "link"}) {
    struct stat s{};
    ASSERT_EQ(::fstatat(root, name, &s, AT_SYMLINK_NOFOLLOW), 0);
    if (S_ISDIR(s.st_mode) && name[0] != '.') bytes += static_cast<std::uint64_t>(s.st_size);
    allocated += static_cast<std::uint64_t>(s.st_blocks) * 512;
  }
  const Usage usage = folder_->usage().value();
  EXPECT_EQ(usage.directory_bytes, bytes);
  EXPECT_EQ(usage.symlink_bytes, 6U);
  EXPECT_EQ(usage.structure_allocated_bytes, allocated);
}

TEST(PosixVolumeTest, TakesWhatIsNoKnownDisksForRemote) {
  const Scratch scratch;
  EXPECT_FALSE(scratch.open()->capabilities().remote);
  if (::mount("ramfs", scratch.path().c_str(), "ramfs", 0, nullptr) != 0) {
    GTEST_SKIP() << "mounting needs root";
  }
  EXPECT_TRUE(scratch.open()->capabilities().remote);
}

TEST_F(PosixFolderTest, SpaceReservedButNotFilledIsGivenBack) {
  const auto staged = folder_->stage(Uuid::random(), true, 64 << 20).value();
  staged->buffer()[0] = std::byte{1};
  ASSERT_TRUE(staged->commit_buffer(1));
  ASSERT_TRUE(staged->commit(at("f"), {}));
  EXPECT_LT(folder_->usage()->allocated_bytes, 1U << 20);
}

TEST_F(PosixFolderTest, RemovesBushyTreesDeeperThanItHasDescriptors) {
  for (int branch = 0; branch < 3; ++branch) {
    fs::path deep = "tree";
    for (int i = 0; i < 150; ++i) {
      deep /= std::to_string(branch);
      write(deep / "f", "x");
    }
  }
  for (int i = 0; i < 300; ++i) write(fs::path("tree/wide") / std::to_string(i) / "f", "x");
  ASSERT_TRUE(folder_->remove(at("tree"), true));
  EXPECT_EQ(folder_->usage()->directories, 0U);
  EXPECT_TRUE(fs::is_empty(path_ / ".upload"));
}

TEST_F(PosixFolderTest, CollectsTheRestOfARemovalThatACrashCutShort) {
  write("a/b/c", "x");
  ASSERT_TRUE(folder_->stage(Uuid::random(), true, 0).value()->discard());
  fs::rename(path_ / "a", path_ / ".upload" / Uuid::random().hex());  // where the crash left it
  EXPECT_TRUE(folder_->list(RelPath(), {.recursive = true})->entries.empty());
  const UnixTime future(std::chrono::hours(24 * 365 * 200));
  EXPECT_EQ(folder_->collect_staging({}, future).value(), 1U);
  EXPECT_TRUE(fs::is_empty(path_ / ".upload"));
}

TEST_F(PosixFolderTest, RemovingAVFolderAgainFinishesWhatWasLeft) {
  write("a/b", "x");
  const fs::path trash = fs::path(scratch_.path()) / "volume/.onggi-trash";
  fs::create_directories(trash);
  fs::rename(path_, trash / id_.id.hex());
  ASSERT_TRUE(backend_->remove_folder(id_)) << "a retry after a failure in mid-removal";
  EXPECT_TRUE(fs::is_empty(trash));
  EXPECT_EQ(backend_->remove_folder(id_).error().code(), ErrorCode::not_found);
}

TEST_F(PosixFolderTest, SurvivesReopening) {
  const Uuid upload = Uuid::random();
  {
    const auto staged = folder_->stage(upload, true, 0).value();
    staged->buffer()[0] = std::byte{'x'};
    ASSERT_TRUE(staged->commit_buffer(1));
    ASSERT_TRUE(staged->flush());
  }
  write("f", "text");
  const std::string etag = folder_->stat(at("f"))->etag;
  folder_.reset();
  backend_ = scratch_.open();
  ASSERT_TRUE(backend_->recover());
  folder_ = backend_->open_folder(id_).value();
  EXPECT_EQ(folder_->stat(at("f"))->etag, etag);
  const auto staged = folder_->stage(upload, false, 0).value();
  EXPECT_EQ(staged->size(), 1U);
  folder_.reset();
  backend_.reset();
  EXPECT_TRUE(staged->commit(at("g"), {})) << "a staged file needs nobody else to be open";
  EXPECT_TRUE(fs::exists(path_ / "g"));
}

TEST_F(PosixFolderTest, StagesOnlyInRegularFilesOfItsOwn) {
  const Uuid fifo = Uuid::random();
  const Uuid link = Uuid::random();
  const fs::path secret = fs::path(scratch_.path()) / "secret";
  std::ofstream(secret) << "secret";
  ASSERT_TRUE(folder_->stage(Uuid::random(), true, 0).value()->discard());
  ASSERT_EQ(::mkfifo((path_ / ".upload" / fifo.hex()).c_str(), 0600), 0);
  fs::create_symlink(secret, path_ / ".upload" / link.hex());
  EXPECT_FALSE(folder_->stage(fifo, true, 0));
  EXPECT_FALSE(folder_->stage(link, true, 0));
  fs::remove_all(path_ / ".upload");
  fs::create_directory_symlink(scratch_.path(), path_ / ".upload");
  EXPECT_FALSE(folder_->stage(Uuid::random(), true, 0));
  EXPECT_EQ(fs::file_size(secret), 6U);
}

// Somebody swaps each new directory for a link out while its mode is being set.
TEST_F(PosixFolderTest, ANewDirectorySwappedForALinkLeavesTheOutsideAlone) {
  const fs::path secret = fs::path(scratch_.path()) / "secret";
  fs::create_directories(secret);
  fs::permissions(secret, fs::perms(0700));
  fs::create_directory_symlink(secret, path_ / "link");
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) {
      ::renameat2(AT_FDCWD, (path_ / "d").c_str(), AT_FDCWD, (path_ / "link").c_str(),
                  RENAME_EXCHANGE);
    }
  });
  for (int i = 0; i < 200; ++i) {
    std::ignore = folder_->make_directory(at("d"), false);
    std::ignore = folder_->remove(at("d"), true);
  }
  stop = true;
  swapper.join();
  EXPECT_EQ(fs::status(secret).permissions(), fs::perms(0700));
}

TEST_F(PosixFolderTest, RenamesWithoutReplacingWhereTheKernelCannot) {
  write("f", "1");
  write("g", "2");
  write("d/f", "3");
  write("e/f", "4");
  const auto place = [&](std::string_view text) {
    return open_parent(*folder_->descriptor(), at(text), O_PATH).value();
  };
  EXPECT_EQ(rename_to_new_by_link(place("f"), place("g")).error().code(),
            ErrorCode::already_exists);
  EXPECT_EQ(rename_to_new_by_link(place("d"), place("e")).error().code(),
            ErrorCode::already_exists);
  ASSERT_TRUE(rename_to_new_by_link(place("f"), place("h")));
  ASSERT_TRUE(rename_to_new_by_link(place("d"), place("i")));
  EXPECT_FALSE(fs::exists(path_ / "f"));
  EXPECT_FALSE(fs::exists(path_ / "d"));
  EXPECT_TRUE(fs::exists(path_ / "h"));
  EXPECT_TRUE(fs::exists(path_ / "i/f"));
}

// A process that replaces a file again and again is killed: what is there is one version, whole.
TEST_F(PosixFolderTest, AKillAtAnyMomentLeavesOneVersionWhole) {
  constexpr std::size_t kSize = 100'000;
  for (int round = 0; round < 8; ++round) {
    int progress[2];
    ASSERT_EQ(::pipe2(progress, O_CLOEXEC), 0);
    const FileDescriptor reader(progress[0]);
    FileDescriptor writer(progress[1]);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int version = 0;; ++version) {
        const auto staged = folder_->stage(Uuid::random(), true, kSize).value();
        for (std::size_t left = kSize; left > 0;) {
          const auto buffer = staged->buffer();
          const std::size_t count = std::min(left, buffer.size());
          std::fill_n(buffer.begin(), count, std::byte('a' + version % 26));
          if (!staged->commit_buffer(count)) ::_exit(1);
          left -= count;
        }
        if (!staged->commit(at("f"), {.durable = false})) ::_exit(1);
        if (::write(writer.get(), "x", 1) != 1) ::_exit(1);
      }
    }
    writer.reset();
    char byte = 0;
    for (int i = 0; i <= round * 7; ++i) ASSERT_EQ(::read(reader.get(), &byte, 1), 1);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::ifstream file(path_ / "f");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    ASSERT_EQ(text.size(), kSize);
    ASSERT_EQ(text.find_first_not_of(text[0]), std::string::npos);
  }
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

TEST(PosixBackendVersionTest, MarksOnlyANewVolumeAndKnowsOnlyItsOwn) {
  const Scratch scratch;
  const fs::path volume = fs::path(scratch.path()) / "volume";
  const fs::path mark = volume / "version.txt";
  fs::create_directories(volume / "lost+found");
  ASSERT_TRUE(scratch.open());
  EXPECT_EQ(fs::file_size(mark), 2U) << "a fresh mount is a new volume";
  fs::remove(mark);
  std::ofstream(volume / "something") << "x";
  ASSERT_TRUE(scratch.open());
  EXPECT_FALSE(fs::exists(mark)) << "in use, by whom we do not know";
  std::ofstream(mark) << "2\n";
  const auto refused = open_posix_backend({.backend = "posix", .options = {{"path", volume}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::unsupported);
}

// Each removal may take a shard directory with it just as another vfolder is made there.
TEST(PosixBackendShardTest, MakingAndRemovingNeighboursAtOnceNeverFails) {
  const Scratch scratch;
  const auto backend = scratch.open();
  const Uuid scope = Uuid::random();
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const FolderId id{scope, Uuid::parse(fmt::format("{:032x}", i)).value()};
      for (int k = 0; k < 50; ++k) {
        if (!backend->create_folder(id, 0775) || !backend->remove_folder(id)) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
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
