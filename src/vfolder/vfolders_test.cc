#include "vfolder/vfolders.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "vfolder/test_node.h"

namespace onggi::vfolder {
namespace {

class VFoldersTest : public NodeTest {};
INSTANTIATE_TEST_SUITE_P(Backends, VFoldersTest, testing::Values("memory", "posix"));

TEST_P(VFoldersTest, MakesFindsRenamesAndDeletes) {
  const Uuid id = node_.make("data");
  const auto got = node_.vfolders.get(node_.me, id);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->vfolder.name, "data");
  EXPECT_EQ(got->vfolder.quota_scope, node_.me.tenant);
  EXPECT_EQ(got->permission, catalog::Permission::owner);
  EXPECT_EQ(node_.vfolders.rename(node_.me, id, "more")->vfolder.name, "more");
  ASSERT_TRUE(node_.put(node_.me, id, "a/b", "hello"));
  EXPECT_EQ(node_.vfolders.usage(node_.me, id)->files, 1U);
  ASSERT_TRUE(node_.vfolders.remove(node_.me, id));
  EXPECT_EQ(code_of(node_.vfolders.get(node_.me, id)), ErrorCode::not_found);
  EXPECT_EQ(code_of(node_.read(node_.me, id, "a/b")), ErrorCode::not_found);
  EXPECT_EQ(code_of(node_.vfolders.remove(node_.me, id)), ErrorCode::not_found);
  EXPECT_TRUE((*node_.volumes.backend("local"))->list_folders()->empty());
  EXPECT_EQ(code_of(node_.catalog().vfolders().find(id)), ErrorCode::not_found);
}

TEST_P(VFoldersTest, ForeignAndMissingLookTheSame) {
  const Uuid id = node_.make("data");
  const auto say = [&](const Uuid& which) {
    std::vector<std::string> said;
    const auto& who = node_.other;
    auto add = [&](const auto& result) {
      EXPECT_FALSE(result);
      if (!result)
        said.push_back(
            fmt::format("{} {}", to_string(result.error().code()), result.error().message()));
    };
    add(node_.vfolders.get(who, which));
    add(node_.vfolders.rename(who, which, "x"));
    add(node_.vfolders.remove(who, which));
    add(node_.vfolders.usage(who, which));
    add(node_.vfolders.share(who, which, "default", catalog::Permission::read_only));
    add(node_.vfolders.unshare(who, which, "default"));
    add(node_.vfolders.shares(who, which));
    add(node_.files.stat(who, which, {}));
    add(node_.put(who, which, "a", "x"));
    add(node_.archives.extract(who, which, {}));
    add(node_.uploads.create(who, {.vfolder = which, .path = rel("a"), .length = 1}));
    return said;
  };
  const auto foreign = say(id);
  EXPECT_EQ(foreign, say(Uuid::random()));
  EXPECT_EQ(std::set<std::string>(foreign.begin(), foreign.end()),
            std::set<std::string>{"not_found no such vfolder"});
  // Nor does an unknown tenant, or an admin over a tenant's data, get another answer.
  EXPECT_EQ(node_.vfolders.share(node_.me, id, "nobody", catalog::Permission::read_only)
                .error()
                .message(),
            "no such vfolder");
}

TEST_P(VFoldersTest, SharesAsStrongAsTold) {
  const Uuid id = node_.make("data");
  ASSERT_TRUE(node_.put(node_.me, id, "a", "1"));
  ASSERT_TRUE(node_.vfolders.share(node_.me, id, "other", catalog::Permission::read_only));
  EXPECT_EQ(node_.read(node_.other, id, "a").value(), "1");
  EXPECT_EQ(code_of(node_.put(node_.other, id, "a", "2")), ErrorCode::permission_denied);
  EXPECT_EQ(code_of(node_.files.remove(node_.other, id, rel("a"), false)),
            ErrorCode::permission_denied);
  EXPECT_EQ(code_of(node_.files.move(node_.other, id, rel("a"), rel("b"), {})),
            ErrorCode::permission_denied);
  EXPECT_EQ(code_of(node_.files.make_directory(node_.other, id, rel("d"), false)),
            ErrorCode::permission_denied);
  EXPECT_EQ(code_of(node_.archives.extract(node_.other, id, {})), ErrorCode::permission_denied);
  EXPECT_EQ(
      code_of(node_.uploads.create(node_.other, {.vfolder = id, .path = rel("u"), .length = 1})),
      ErrorCode::permission_denied);
  EXPECT_EQ(node_.vfolders.list(node_.other, {})->items.size(), 1U);

  ASSERT_TRUE(node_.vfolders.share(node_.me, id, node_.other.tenant.to_string(),
                                   catalog::Permission::read_write));
  EXPECT_TRUE(node_.put(node_.other, id, "a", "2"));
  EXPECT_EQ(code_of(node_.vfolders.rename(node_.other, id, "mine")), ErrorCode::permission_denied);
  EXPECT_EQ(code_of(node_.vfolders.remove(node_.other, id)), ErrorCode::permission_denied);
  EXPECT_EQ(code_of(node_.vfolders.shares(node_.other, id)), ErrorCode::permission_denied);
  EXPECT_EQ(node_.vfolders.shares(node_.me, id)->size(), 1U);

  ASSERT_TRUE(node_.vfolders.unshare(node_.me, id, "other"));
  EXPECT_EQ(code_of(node_.read(node_.other, id, "a")), ErrorCode::not_found);
  EXPECT_EQ(code_of(node_.vfolders.share(node_.me, id, "default", catalog::Permission::read_only)),
            ErrorCode::invalid_argument);
}

TEST_P(VFoldersTest, RefusesBadNamesAndForeignQuotaScopes) {
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string("."), std::string("a\nb"),
        std::string("\xff"), std::string(129, 'x')}) {
    EXPECT_EQ(code_of(node_.vfolders.create(node_.me,
                                            {.volume = "local", .name = name, .quota_scope = {}})),
              ErrorCode::invalid_argument);
  }
  EXPECT_EQ(code_of(node_.vfolders.create(node_.me,
                                          {.volume = "nowhere", .name = "x", .quota_scope = {}})),
            ErrorCode::not_found);
  EXPECT_EQ(code_of(node_.vfolders.create(
                node_.me, {.volume = "local", .name = "x", .quota_scope = Uuid::random()})),
            ErrorCode::permission_denied);
  const Uuid scope = Uuid::random();
  EXPECT_EQ(
      node_.vfolders.create(node_.admin, {.volume = "local", .name = "x", .quota_scope = scope})
          ->vfolder.quota_scope,
      scope);
  EXPECT_EQ(
      code_of(node_.vfolders.create(node_.me, {.volume = "local", .name = "x", .quota_scope = {}})),
      ErrorCode::already_exists);
}

TEST_P(VFoldersTest, ListsInPages) {
  std::set<std::string> made;
  for (int i = 0; i < 23; ++i) {
    made.insert(fmt::format("f{:02}", i));
    node_.make(fmt::format("f{:02}", i));
  }
  std::set<std::string> seen;
  VFolderFilter filter;
  filter.limit = 5;
  int pages = 0;
  do {
    const auto page = node_.vfolders.list(node_.me, filter);
    ASSERT_TRUE(page);
    for (const auto& item : page->items) EXPECT_TRUE(seen.insert(item.vfolder.name).second);
    filter.cursor = page->next_cursor;
    ++pages;
  } while (!filter.cursor.empty());
  EXPECT_EQ(seen, made);
  EXPECT_EQ(pages, 5);
  for (const char* cursor : {"x", "00", "zz000000000000000000000000000000ab"}) {
    filter.cursor = cursor;
    EXPECT_EQ(code_of(node_.vfolders.list(node_.me, filter)), ErrorCode::invalid_argument);
  }
}

TEST_P(VFoldersTest, KeepsFewerFoldersOpenThanThereAre) {
  VFolders small(node_.catalog(), node_.volumes, clock_, {.open_max = 2});
  std::vector<Uuid> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(node_.make(fmt::format("f{}", i)));
  std::vector<std::shared_ptr<backend::Folder>> held;
  for (int round = 0; round < 2; ++round) {
    for (const auto& id : ids) held.push_back(small.open(node_.me, id, Access::read).value());
  }
  // Those pushed out of the cache still work.
  for (const auto& folder : held) EXPECT_TRUE(folder->usage());
}

TEST_P(VFoldersTest, SurvivesUseWhileDeleting) {
  std::atomic<int> unexpected = 0;
  for (int round = 0; round < 5; ++round) {
    const Uuid id = node_.make("busy");
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          static_cast<void>(node_.put(node_.me, id, fmt::format("d{}/f{}", t, i), "x"));
          static_cast<void>(node_.read(node_.me, id, "d0/f1"));
        }
      });
    }
    threads.emplace_back([&] {
      if (!node_.vfolders.remove(node_.me, id)) ++unexpected;
    });
    threads.clear();
    EXPECT_EQ(code_of(node_.vfolders.get(node_.me, id)), ErrorCode::not_found);
  }
  // What the racing writers may have left is finished by a sweep.
  ASSERT_TRUE(node_.recovery.sweep());
  EXPECT_TRUE((*node_.volumes.backend("local"))->list_folders()->empty());
  EXPECT_EQ(unexpected, 0);
}

TEST(VolumesTest, AddsListsRemovesAndRemembers) {
  const TempFolder folder;
  SystemClock clock;
  const std::string path = folder.file("second");
  std::filesystem::create_directories(path);
  const VolumeConfig second{.name = "second",
                            .spec = {.backend = "posix", .options = {{"path", path}}}};
  {
    TestNode node(folder.path(), clock);
    EXPECT_EQ(code_of(node.volumes.add(node.me, second)), ErrorCode::permission_denied);
    ASSERT_TRUE(node.volumes.add(node.admin, second));
    EXPECT_EQ(code_of(node.volumes.add(node.admin, second)), ErrorCode::already_exists);
    EXPECT_EQ(code_of(node.volumes.add(node.admin,
                                       {.name = "x", .spec = {.backend = "tape", .options = {}}})),
              ErrorCode::invalid_argument);
    EXPECT_FALSE(node.volumes.add(
        node.admin, {.name = "x", .spec = {.backend = "posix", .options = {{"path", "/proc/x"}}}}));
    EXPECT_EQ(code_of(node.volumes.remove(node.admin, "local")), ErrorCode::conflict);
  }
  TestNode node(folder.path(), clock);
  ASSERT_EQ(node.volumes.list().size(), 2U);
  const auto status = node.volumes.get("second");
  ASSERT_TRUE(status);
  EXPECT_FALSE(status->configured);
  EXPECT_FALSE(status->error);
  EXPECT_TRUE(status->capabilities.durable);
  EXPECT_GT(status->space->total_bytes, 0U);
  const auto made =
      node.vfolders.create(node.me, {.volume = "second", .name = "x", .quota_scope = {}});
  ASSERT_TRUE(made);
  EXPECT_EQ(code_of(node.volumes.remove(node.admin, "second")), ErrorCode::conflict);
  ASSERT_TRUE(node.vfolders.remove(node.me, made->vfolder.id));
  EXPECT_TRUE(node.volumes.remove(node.admin, "second"));
  EXPECT_EQ(code_of(node.volumes.get("second")), ErrorCode::not_found);
}

TEST(VolumesTest, ListsAVolumeThatFailsToOpenAndTriesItAgain) {
  const TempFolder folder;
  FakeClock clock;
  const std::string parent = folder.file("parent");
  const std::string path = parent + "/second";
  std::filesystem::create_directories(parent);
  {
    TestNode node(folder.path(), clock);
    ASSERT_TRUE(node.volumes.add(
        node.admin, {.name = "second", .spec = {.backend = "posix", .options = {{"path", path}}}}));
  }
  std::filesystem::remove_all(parent);
  TestNode node(folder.path(), clock);
  ASSERT_TRUE(node.recovery.start());
  ASSERT_TRUE(node.volumes.get("second")->error);
  EXPECT_EQ(
      code_of(node.vfolders.create(node.me, {.volume = "second", .name = "x", .quota_scope = {}})),
      ErrorCode::unavailable);
  EXPECT_TRUE(node.vfolders.create(node.me, {.volume = "local", .name = "x", .quota_scope = {}}));
  std::filesystem::create_directories(parent);
  EXPECT_EQ(code_of(node.volumes.backend("second")), ErrorCode::unavailable);  // too soon
  clock.advance(std::chrono::seconds(6));
  EXPECT_TRUE(node.volumes.backend("second"));
  EXPECT_FALSE(node.volumes.get("second")->error);
}

}  // namespace
}  // namespace onggi::vfolder
