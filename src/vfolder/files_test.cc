#include "vfolder/files.h"

#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "vfolder/test_node.h"

namespace onggi::vfolder {
namespace {

class FilesTest : public NodeTest {
 protected:
  FilesTest() : id_(node_.make("data")) {}

  // How many staging files there are, by collecting them.
  std::size_t staging() {
    const auto folder = node_.vfolders.open(node_.me, id_, Access::write).value();
    return folder->collect_staging({}, clock_.now() + std::chrono::hours(1)).value();
  }

  Uuid id_;
};

INSTANTIATE_TEST_SUITE_P(Backends, FilesTest, testing::Values("memory", "posix"));

TEST_P(FilesTest, PutsReadsReplacesMovesAndRemoves) {
  const auto first = node_.put(node_.me, id_, "a/b.txt", "one");
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_TRUE(first->created);
  EXPECT_EQ(first->info.size_bytes, 3U);
  EXPECT_EQ(node_.read(node_.me, id_, "a/b.txt").value(), "one");
  const auto second = node_.put(node_.me, id_, "a/b.txt", std::string(3 << 20, 'x'));
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->created);
  EXPECT_NE(second->info.etag, first->info.etag);
  EXPECT_EQ(node_.read(node_.me, id_, "a/b.txt").value(), std::string(3 << 20, 'x'));
  EXPECT_EQ(node_.files.stat(node_.me, id_, rel("a/b.txt"))->etag, second->info.etag);
  EXPECT_TRUE(node_.files.move(node_.me, id_, rel("a/b.txt"), rel("c/d.txt"), {}));
  EXPECT_EQ(code_of(node_.files.stat(node_.me, id_, rel("a/b.txt"))), ErrorCode::not_found);
  EXPECT_EQ(node_.files.make_directory(node_.me, id_, rel("e"), false)->kind,
            backend::FileKind::directory);
  EXPECT_EQ(code_of(node_.files.remove(node_.me, id_, rel("c"), false)), ErrorCode::conflict);
  EXPECT_TRUE(node_.files.remove(node_.me, id_, rel("c"), true));
  EXPECT_EQ(staging(), 0U);
}

TEST_P(FilesTest, VerifiesTheChecksumBeforeAnythingIsSeen) {
  ASSERT_TRUE(node_.put(node_.me, id_, "f", "old"));
  const auto wrong = node_.put(node_.me, id_, "f", "new", {.xxh3 = 1, .if_etag = {}});
  EXPECT_EQ(code_of(wrong), ErrorCode::corruption);
  EXPECT_EQ(node_.read(node_.me, id_, "f").value(), "old");
  EXPECT_EQ(staging(), 0U);
  EXPECT_TRUE(node_.put(node_.me, id_, "f", "new", {.xxh3 = xxh3(as_bytes("new")), .if_etag = {}}));
  EXPECT_EQ(node_.read(node_.me, id_, "f").value(), "new");
}

TEST_P(FilesTest, HoldsPreconditions) {
  const auto first =
      node_.put(node_.me, id_, "f", "1", {.xxh3 = {}, .if_etag = {}, .if_absent = true});
  ASSERT_TRUE(first);
  EXPECT_EQ(
      code_of(node_.put(node_.me, id_, "f", "2", {.xxh3 = {}, .if_etag = {}, .if_absent = true})),
      ErrorCode::condition_failed);
  EXPECT_EQ(code_of(node_.put(node_.me, id_, "f", "2", {.xxh3 = {}, .if_etag = "\"other\""})),
            ErrorCode::condition_failed);
  EXPECT_TRUE(node_.put(node_.me, id_, "f", "2", {.xxh3 = {}, .if_etag = first->info.etag}));
  EXPECT_EQ(code_of(node_.put(node_.me, id_, "f", "3", {.xxh3 = {}, .if_etag = first->info.etag})),
            ErrorCode::condition_failed);
  EXPECT_EQ(node_.read(node_.me, id_, "f").value(), "2");
  EXPECT_EQ(staging(), 0U);
}

TEST_P(FilesTest, LeavesNothingOfAnAbandonedPut) {
  {
    const auto session = node_.files.write(node_.me, id_, rel("f"), {.size_hint = 100}).value();
    ASSERT_TRUE(TestNode::pour(*session, "half"));
    session->abandon();
  }
  {
    const auto session = node_.files.write(node_.me, id_, rel("f"), {}).value();
    ASSERT_TRUE(TestNode::pour(*session, "half"));
  }
  EXPECT_EQ(code_of(node_.files.stat(node_.me, id_, rel("f"))), ErrorCode::not_found);
  EXPECT_EQ(staging(), 0U);
}

TEST_P(FilesTest, ListsInPagesBothWays) {
  std::set<std::string> flat;
  std::set<std::string> deep;
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("f{}", i);
    ASSERT_TRUE(node_.put(node_.me, id_, "d/" + name, "x"));
    ASSERT_TRUE(node_.put(node_.me, id_, "d/sub/" + name, "x"));
    flat.insert(name);
    deep.insert(name);
    deep.insert("sub/" + name);
  }
  flat.insert("sub");
  deep.insert("sub");
  for (const bool recursive : {false, true}) {
    std::set<std::string> seen;
    ListRequest request{.recursive = recursive, .cursor = {}, .limit = 5};
    do {
      const auto page = node_.files.list(node_.me, id_, rel("d"), request);
      ASSERT_TRUE(page) << page.error().message();
      EXPECT_LE(page->items.size(), 5U);
      for (const auto& item : page->items) EXPECT_TRUE(seen.insert(item.path).second) << item.path;
      request.cursor = page->next_cursor;
    } while (!request.cursor.empty());
    EXPECT_EQ(seen, recursive ? deep : flat);
  }
  EXPECT_EQ(code_of(node_.files.list(node_.me, id_, {}, {.recursive = false, .cursor = "g"})),
            ErrorCode::invalid_argument);
  EXPECT_EQ(
      code_of(node_.files.list(node_.me, id_, {}, {.recursive = false, .cursor = {}, .limit = 0})),
      ErrorCode::invalid_argument);
}

TEST_P(FilesTest, RefusesTheRootAsAFile) {
  EXPECT_EQ(code_of(node_.put(node_.me, id_, "", "x")), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(node_.files.remove(node_.me, id_, {}, true)), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(node_.files.move(node_.me, id_, {}, rel("x"), {})),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(node_.files.make_directory(node_.me, id_, {}, true)),
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace onggi::vfolder
