#include "vfolder/recovery.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vfolder/tar.h"
#include "vfolder/test_node.h"

namespace onggi::vfolder {
namespace {

// ONGGI_TEST_SEED repeats a run.
unsigned make_seed() {
  const char* given = std::getenv("ONGGI_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                          : std::random_device{}();
}

// Runs `work` in a process of its own, with a node over `data`, and kills it `delay` after the node
// stood.
template <typename Work>
void kill_after(std::chrono::microseconds delay, const std::filesystem::path& data,
                const Work& work) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SystemClock clock;
    TestNode node(data, clock);
    if (::write(ready[1], "r", 1) == 1) work(node);
    ::_exit(0);
  }
  char byte = 0;
  ::close(ready[1]);
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  std::this_thread::sleep_for(delay);  // the moment is what the test varies
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

class CrashTest : public testing::Test {
 protected:
  CrashTest() : random_(seed_) { RecordProperty("seed", std::to_string(seed_)); }

  std::chrono::microseconds delay(int most_ms) {
    return std::chrono::microseconds(random_() % (static_cast<unsigned>(most_ms) * 1000));
  }

  // Of all vfolders.
  std::size_t staging_files() const {
    std::size_t count = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_.path() / "volume")) {
      if (entry.path().parent_path().filename() == ".upload") ++count;
    }
    return count;
  }

  const unsigned seed_ = make_seed();
  std::mt19937 random_;
  TempFolder folder_;
  SystemClock clock_;
};

// What version `n` of a file holds: its number, over and over, to a length of its own.
std::string version(int n) {
  std::string content;
  const std::string word = fmt::format("{:08}", n);
  for (int i = 0; i < 5000 + n % 7000; ++i) content += word;
  return content;
}

// The version of which `content` is exactly the whole, or -1.
int whole_version(const std::string& content) {
  if (content.size() < 8) return -1;
  const int n = std::atoi(content.substr(0, 8).c_str());
  return content == version(n) ? n : -1;
}

TEST_F(CrashTest, AReplacedFileIsWholeOldOrWholeNew) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  Uuid id;
  {
    TestNode node(folder_.path(), clock_);
    id = node.make("data");
    ASSERT_TRUE(node.put(node.me, id, "f", version(0)));
  }
  int last = 0;
  for (int round = 0; round < 8; ++round) {
    kill_after(delay(60), folder_.path(), [&](TestNode& node) {
      for (int n = last + 1;; ++n) {
        if (!node.put(node.me, id, "f", version(n))) return;
      }
    });
    TestNode node(folder_.path(), clock_);
    ASSERT_TRUE(node.recovery.start());
    const auto content = node.read(node.me, id, "f");
    ASSERT_TRUE(content) << content.error().message();
    const int now = whole_version(*content);
    EXPECT_GE(now, last);
    last = now;
    EXPECT_EQ(staging_files(), 0U);
  }
}

TEST_F(CrashTest, AnUploadGoesOnFromWhatWasAcknowledged) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const std::string content = version(1234);
  for (int round = 0; round < 6; ++round) {
    const std::string name = fmt::format("d{}", round);
    Uuid id;
    Uuid upload;
    {
      TestNode node(folder_.path(), clock_);
      id = node.make(name);
      upload = node.uploads
                   .create(node.me, {.vfolder = id,
                                     .path = rel("f"),
                                     .length = content.size(),
                                     .xxh3 = xxh3(std::as_bytes(std::span(content)))})
                   ->id;
    }
    kill_after(delay(40), folder_.path(), [&](TestNode& node) {
      for (std::size_t at = 0; at < content.size(); at += 1000) {
        const auto session = node.uploads.append(node.me, upload, {.offset = at});
        if (!session || !TestNode::pour(**session, content.substr(at, 1000)) ||
            !(*session)->finish()) {
          return;
        }
      }
    });
    TestNode node(folder_.path(), clock_);
    ASSERT_TRUE(node.recovery.start());
    const auto status = node.uploads.status(node.me, upload);
    if (!status) {
      // Killed between the commit and its note: the file is whole.
      EXPECT_EQ(node.read(node.me, id, "f").value_or(""), content);
      continue;
    }
    if (!status->etag) {
      EXPECT_EQ(code_of(node.files.stat(node.me, id, rel("f"))), ErrorCode::not_found);
      const auto session = node.uploads.append(node.me, upload, {.offset = status->offset}).value();
      ASSERT_TRUE(TestNode::pour(*session, content.substr(status->offset)));
      ASSERT_TRUE(session->finish());
    }
    EXPECT_EQ(node.read(node.me, id, "f").value(), content);
    EXPECT_EQ(staging_files(), 0U);
  }
}

TEST_F(CrashTest, ARenamedVFolderHasOneOfItsNames) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  Uuid id;
  {
    TestNode node(folder_.path(), clock_);
    id = node.make("n0");
    ASSERT_TRUE(node.put(node.me, id, "f", "content"));
  }
  for (int round = 0; round < 5; ++round) {
    kill_after(delay(30), folder_.path(), [&](TestNode& node) {
      for (int n = 0;; ++n) {
        if (!node.vfolders.rename(node.me, id, fmt::format("n{}", n))) return;
      }
    });
    TestNode node(folder_.path(), clock_);
    ASSERT_TRUE(node.recovery.start());
    const auto got = node.vfolders.get(node.me, id);
    ASSERT_TRUE(got);
    EXPECT_TRUE(got->vfolder.name.starts_with("n"));
    EXPECT_EQ(node.read(node.me, id, "f").value(), "content");
  }
}

TEST_F(CrashTest, VFoldersMadeAndDeletedLeaveNothingHalf) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  for (int round = 0; round < 8; ++round) {
    kill_after(delay(60), folder_.path(), [&](TestNode& node) {
      for (int n = 0;; ++n) {
        const auto made = node.vfolders.create(
            node.me,
            {.volume = "local", .name = fmt::format("r{}-{}", round, n), .quota_scope = {}});
        if (!made) return;
        for (int i = 0; i < 5; ++i) {
          static_cast<void>(node.put(node.me, made->vfolder.id, fmt::format("a/b/{}", i), "x"));
        }
        if (n % 2 == 0 && !node.vfolders.remove(node.me, made->vfolder.id)) return;
      }
    });
    TestNode node(folder_.path(), clock_);
    ASSERT_TRUE(node.recovery.start());
    std::set<Uuid> known;
    const auto listed =
        node.vfolders.list(node.me, {.volume = {}, .name = {}, .cursor = {}, .limit = 10000});
    ASSERT_TRUE(listed);
    for (const auto& item : listed->items) {
      known.insert(item.vfolder.id);
      EXPECT_TRUE(node.vfolders.usage(node.me, item.vfolder.id));
    }
    std::set<Uuid> present;
    const auto folders = (*node.volumes.backend("local"))->list_folders().value();
    for (const auto& folder : folders) {
      present.insert(folder.id);
    }
    EXPECT_EQ(known, present);
    for (const auto state : {catalog::VFolderState::creating, catalog::VFolderState::deleting}) {
      EXPECT_TRUE(node.catalog().vfolders().in_state(state, Uuid(), 10)->empty());
    }
  }
}

TEST(RecoveryTest, SweepSparesWhatIsInUse) {
  const TempFolder folder;
  SystemClock clock;
  TestNode node(folder.path(), clock);
  const Uuid id = node.make("data");
  const auto put = node.files.write(node.me, id, rel("put"), {}).value();
  ASSERT_TRUE(TestNode::pour(*put, "abc"));
  const auto upload =
      node.uploads.create(node.me, {.vfolder = id, .path = rel("tus"), .length = 3}).value();
  const auto session = node.uploads.append(node.me, upload.id, {.offset = 0}).value();
  ASSERT_TRUE(TestNode::pour(*session, "abc"));
  ASSERT_TRUE(node.recovery.sweep());
  EXPECT_TRUE(put->finish());
  EXPECT_TRUE(session->finish()->etag);
}

// A file system of 4 MiB that goes with its object; only root can have one.
class SmallDisk {
 public:
  SmallDisk() {
    std::filesystem::create_directories(path());
    mounted_ = ::mount("tmpfs", path().c_str(), "tmpfs", 0, "size=4m") == 0;
  }

  ~SmallDisk() {
    if (mounted_) ::umount2(path().c_str(), MNT_DETACH);
  }

  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  SmallDisk(SmallDisk&&) = delete;
  SmallDisk& operator=(SmallDisk&&) = delete;

  bool mounted() const { return mounted_; }
  std::string path() const { return folder_.file("disk"); }

 private:
  TempFolder folder_;
  bool mounted_ = false;
};

TEST(FullDiskTest, RefusesKeepsTheOldFileAndLeavesNoStaging) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs needs root";
  const TempFolder folder;
  SystemClock clock;
  TestNode node(folder.path(), clock,
                {.backend = "posix", .uploads = {}, .archives = {}, .volume_path = disk.path()});
  const Uuid id = node.make("data");
  ASSERT_TRUE(node.put(node.me, id, "f", "old"));
  const std::string big(6 << 20, 'x');
  const auto space = [&] { return node.volumes.get("local")->space->available_bytes; };
  const auto before = space();

  for (const std::uint64_t hint : {std::uint64_t{0}, std::uint64_t{big.size()}}) {
    const auto put =
        node.put(node.me, id, "f", big, {.size_hint = hint, .xxh3 = {}, .if_etag = {}});
    EXPECT_EQ(code_of(put), ErrorCode::storage_full);
    EXPECT_EQ(node.read(node.me, id, "f").value(), "old");
    EXPECT_EQ(space(), before);
  }

  const auto upload =
      node.uploads.create(node.me, {.vfolder = id, .path = rel("f"), .length = big.size()});
  if (upload) {  // a file system may refuse already here, when it can set space aside
    const auto session = node.uploads.append(node.me, upload->id, {.offset = 0}).value();
    Status status = TestNode::pour(*session, big);
    if (status) status = session->finish().map([](const auto&) {});
    EXPECT_EQ(code_of(status), ErrorCode::storage_full);
  } else {
    EXPECT_EQ(code_of(upload), ErrorCode::storage_full);
  }
  EXPECT_EQ(node.read(node.me, id, "f").value(), "old");
  EXPECT_EQ(space(), before);

  std::string tar =
      tar_header({.path = "many/big", .size = big.size(), .mode = 0644, .modified = {}}) + big;
  tar.append(2 * kTarBlock, '\0');
  {
    const auto session = node.archives.extract(node.me, id, {}).value();
    Status status = TestNode::pour(*session, tar);
    if (status) status = session->finish().map([](const auto&) {});
    EXPECT_EQ(code_of(status), ErrorCode::storage_full);
  }
  EXPECT_EQ(space(), before);
}

}  // namespace
}  // namespace onggi::vfolder
