#include "vfolder/archives.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/encoding.h"
#include "vfolder/tar.h"
#include "vfolder/test_node.h"

namespace onggi::vfolder {
namespace {

std::string member(const std::string& path, const std::string& content) {
  std::string out =
      tar_header({.path = path, .size = content.size(), .mode = 0644, .modified = {}}) + content;
  out.append((kTarBlock - content.size() % kTarBlock) % kTarBlock, '\0');
  return out;
}

const std::string kEnd(2 * kTarBlock, '\0');

class ArchivesTest : public NodeTest {
 protected:
  ArchivesTest() : id_(node_.make("data")) {}

  Result<Extracted> extract(const std::string& archive, const backend::RelPath& path = {}) {
    ASSIGN_OR_RETURN(const auto session, node_.archives.extract(node_.me, id_, path));
    RETURN_IF_ERROR(TestNode::pour(*session, archive));
    return session->finish();
  }

  Result<std::string> archive(const backend::RelPath& path = {}) {
    ASSIGN_OR_RETURN(const auto stream, node_.archives.archive(node_.me, id_, path));
    std::string out;
    while (true) {
      ASSIGN_OR_RETURN(const auto part, stream->next());
      if (part.empty()) return out;
      for (const std::byte b : part) out.push_back(static_cast<char>(b));
    }
  }

  std::size_t staging() {
    const auto folder = node_.vfolders.open(node_.me, id_, Access::write).value();
    return folder->collect_staging({}, clock_.now() + std::chrono::hours(1)).value();
  }

  Uuid id_;
};

INSTANTIATE_TEST_SUITE_P(Backends, ArchivesTest, testing::Values("memory", "posix"));

TEST_P(ArchivesTest, VerifiesTheChecksumOfTheWhole) {
  const std::string tar = member("a", "one") + kEnd;
  const std::uint64_t right = xxh3(as_bytes(tar));
  for (const std::uint64_t announced : {right, right + 1}) {
    const auto session = node_.archives.extract(node_.me, id_, {}, announced).value();
    ASSERT_TRUE(TestNode::pour(*session, tar));
    const auto done = session->finish();
    EXPECT_EQ(done.has_value(), announced == right);
    if (!done) {
      EXPECT_EQ(done.error().code(), ErrorCode::corruption);
    }
  }
}

TEST_P(ArchivesTest, ExtractsBelowAPathAndGivesTheSameTreeBack) {
  const std::string big(5 << 20, 'b');
  const std::string tar =
      tar_header({.path = "d", .directory = true, .mode = 0755, .modified = {}}) +
      member("d/a", "one") + member("d/empty", "") + member("e/big", big) + kEnd;
  const auto done = extract(tar, rel("into/here"));
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->files, 3U);
  EXPECT_EQ(done->directories, 1U);
  EXPECT_EQ(done->size_bytes, 3U + big.size());
  EXPECT_EQ(node_.read(node_.me, id_, "into/here/d/a").value(), "one");
  EXPECT_EQ(node_.read(node_.me, id_, "into/here/e/big").value(), big);

  const auto out = archive(rel("into/here"));
  ASSERT_TRUE(out) << out.error().message();
  ASSERT_TRUE(extract(*out, rel("again")));
  EXPECT_EQ(node_.read(node_.me, id_, "again/d/a").value(), "one");
  EXPECT_EQ(node_.read(node_.me, id_, "again/d/empty").value(), "");
  EXPECT_EQ(node_.read(node_.me, id_, "again/e/big").value(), big);
  EXPECT_EQ(archive(rel("again"))->size(), out->size());
  EXPECT_EQ(staging(), 0U);
}

TEST_P(ArchivesTest, GivesManyFilesBack) {
  const int count = GetParam() == "memory" ? 3000 : 300;  // disks are slow, buffers are the same
  std::string tar;
  for (int i = 0; i < count; ++i)
    tar += member(fmt::format("d{}/f{}", i % 7, i), fmt::format("{}", i));
  ASSERT_TRUE(extract(tar + kEnd));
  const auto out = archive();
  ASSERT_TRUE(out);
  const auto again = extract(*out, rel("copy"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->files, static_cast<std::uint64_t>(count));
  EXPECT_EQ(again->directories, 7U);
  EXPECT_EQ(node_.read(node_.me, id_, "copy/d3/f199").value(), "199");
}

TEST_P(ArchivesTest, KeepsWholeFilesOfABrokenArchiveAndNoStaging) {
  const std::string tar = member("whole", "1") + member("half", std::string(2000, 'h'));
  {
    const auto session = node_.archives.extract(node_.me, id_, {}).value();
    ASSERT_TRUE(TestNode::pour(*session, tar.substr(0, tar.size() - 1500)));
    const auto done = session->finish();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::invalid_argument);
  }
  // A complete file may or may not be there, but never in part.
  EXPECT_EQ(node_.read(node_.me, id_, "whole").value_or("1"), "1");
  EXPECT_EQ(code_of(node_.files.stat(node_.me, id_, rel("half"))), ErrorCode::not_found);
  EXPECT_EQ(staging(), 0U);
}

TEST_P(ArchivesTest, RefusesAFileWhereADirectoryIs) {
  ASSERT_TRUE(node_.files.make_directory(node_.me, id_, rel("d"), false));
  const auto done = extract(member("d", "x") + kEnd);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("'d'"), std::string::npos) << done.error().message();
  EXPECT_EQ(staging(), 0U);
}

TEST_P(ArchivesTest, LetsTheLastOfSeveralFilesOfAPathWin) {
  std::string tar;
  for (int i = 0; i < 50; ++i) tar += member("same", fmt::format("{}", i));
  tar += member("big", std::string(1 << 20, 'b')) + member("big", "small");
  tar += member("grown", "small") + member("grown", std::string(1 << 20, 'g'));
  ASSERT_TRUE(extract(tar + kEnd));
  EXPECT_EQ(node_.read(node_.me, id_, "same").value(), "49");
  EXPECT_EQ(node_.read(node_.me, id_, "big").value(), "small");
  EXPECT_EQ(node_.read(node_.me, id_, "grown").value().size(), std::size_t{1} << 20U);
}

TEST_P(ArchivesTest, TakesADirectoryThatIsThere) {
  ASSERT_TRUE(node_.put(node_.me, id_, "d/old", "1"));
  const std::string tar =
      tar_header({.path = "d", .directory = true, .mode = 0755, .modified = {}}) +
      member("d/new", "2") + kEnd;
  const auto done = extract(tar);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(node_.read(node_.me, id_, "d/old").value(), "1");
}

TEST_P(ArchivesTest, SaysAtOnceWhenThereIsNothingToArchive) {
  EXPECT_EQ(code_of(node_.archives.archive(node_.me, id_, rel("missing"))), ErrorCode::not_found);
  EXPECT_EQ(archive().value(), kEnd);  // an empty vfolder is an empty archive
}

TEST_P(ArchivesTest, StopsWhenTheClientLeaves) {
  ASSERT_TRUE(node_.put(node_.me, id_, "f", std::string(3 << 20, 'x')));
  const auto stream = node_.archives.archive(node_.me, id_, {}).value();
  ASSERT_TRUE(stream->next());
  stream->cancel();
  EXPECT_EQ(code_of(stream->next()), ErrorCode::cancelled);
}

}  // namespace
}  // namespace onggi::vfolder
