#include "vfolder/uploads.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/encoding.h"
#include "vfolder/test_node.h"

namespace onggi::vfolder {
namespace {

class UploadsTest : public NodeTest {
 protected:
  UploadsTest() : id_(node_.make("data")) {}

  UploadRequest request(std::uint64_t length, const std::string& path = "up/file") const {
    return {.vfolder = id_, .path = rel(path), .length = length};
  }

  Uuid create(std::uint64_t length) {
    const auto made = node_.uploads.create(node_.me, request(length));
    EXPECT_TRUE(made) << made.error().message();
    return made ? made->id : Uuid();
  }

  Result<UploadStatus> append(const Uuid& upload, std::uint64_t offset, std::string_view content,
                              std::optional<ChunkChecksum> checksum = {}) {
    ASSIGN_OR_RETURN(const auto session, node_.uploads.append(node_.me, upload,
                                                              {.offset = offset,
                                                               .checksum = std::move(checksum),
                                                               .length = content.size()}));
    RETURN_IF_ERROR(TestNode::pour(*session, content));
    return session->finish();
  }

  std::uint64_t offset(const Uuid& upload) {
    const auto status = node_.uploads.status(node_.me, upload);
    EXPECT_TRUE(status) << status.error().message();
    return status ? status->offset : ~std::uint64_t{0};
  }

  std::size_t staging() {
    const auto folder = node_.vfolders.open(node_.me, id_, Access::write).value();
    return folder->collect_staging({}, clock_.now() + std::chrono::hours(1)).value();
  }

  Uuid id_;
};

INSTANTIATE_TEST_SUITE_P(Backends, UploadsTest, testing::Values("memory", "posix"));

TEST_P(UploadsTest, CommitsWhenTheOffsetReachesTheLength) {
  const std::string content(3'000'001, 'x');
  const Uuid upload = create(content.size());
  EXPECT_EQ(offset(upload), 0U);
  std::uint64_t at = 0;
  for (const std::size_t part : {1000, 1, 1'999'999}) {
    const auto status = append(upload, at, std::string_view(content).substr(at, part));
    ASSERT_TRUE(status) << status.error().message();
    at += part;
    EXPECT_EQ(status->offset, at);
    EXPECT_FALSE(status->etag);
    EXPECT_EQ(offset(upload), at);
    EXPECT_EQ(code_of(node_.read(node_.me, id_, "up/file")), ErrorCode::not_found);
  }
  const auto last = append(upload, at, std::string_view(content).substr(at));
  ASSERT_TRUE(last) << last.error().message();
  EXPECT_EQ(last->offset, content.size());
  EXPECT_EQ(last->etag, node_.files.stat(node_.me, id_, rel("up/file"))->etag);
  EXPECT_EQ(node_.read(node_.me, id_, "up/file").value(), content);
  // A repeated request learns that it is complete.
  EXPECT_EQ(offset(upload), content.size());
  EXPECT_EQ(code_of(append(upload, at, std::string_view(content).substr(at))), ErrorCode::conflict);
  EXPECT_EQ(staging(), 0U);
}

TEST_P(UploadsTest, CommitsAnEmptyUploadAtOnce) {
  const auto made = node_.uploads.create(node_.me, request(0));
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(made->etag);
  EXPECT_EQ(node_.read(node_.me, id_, "up/file").value(), "");
  EXPECT_EQ(staging(), 0U);
}

TEST_P(UploadsTest, RefusesAnotherOffsetAndTooManyBytes) {
  const Uuid upload = create(10);
  ASSERT_TRUE(append(upload, 0, "12345"));
  EXPECT_EQ(code_of(append(upload, 0, "12345")), ErrorCode::conflict);
  EXPECT_EQ(code_of(append(upload, 6, "1")), ErrorCode::conflict);
  EXPECT_EQ(code_of(append(upload, 5, "1234567")), ErrorCode::too_large);
  EXPECT_EQ(offset(upload), 5U);
  // Of unknown length: what fits stays, one byte more is refused.
  {
    const auto session = node_.uploads.append(node_.me, upload, {.offset = 5}).value();
    EXPECT_EQ(code_of(TestNode::pour(*session, "6789A!")), ErrorCode::too_large);
    session->abandon();
  }
  EXPECT_EQ(offset(upload), 10U);
  EXPECT_TRUE(append(upload, 10, "")->etag);
  EXPECT_EQ(node_.read(node_.me, id_, "up/file").value(), "123456789A");
}

TEST_P(UploadsTest, LetsOneSessionInAtATime) {
  const Uuid upload = create(10);
  ASSERT_TRUE(append(upload, 0, "ab"));
  {
    const auto session = node_.uploads.append(node_.me, upload, {.offset = 2}).value();
    ASSERT_TRUE(TestNode::pour(*session, "cd"));
    EXPECT_EQ(code_of(node_.uploads.append(node_.me, upload, {.offset = 2})), ErrorCode::conflict);
    EXPECT_EQ(code_of(node_.uploads.terminate(node_.me, upload)), ErrorCode::conflict);
    EXPECT_EQ(offset(upload), 2U);  // what was acknowledged
  }
  EXPECT_EQ(offset(upload), 4U);  // an interrupted body keeps the bytes that came
  // The next may come as soon as one has finished, however long its object lives.
  const auto first = node_.uploads.append(node_.me, upload, {.offset = 4}).value();
  ASSERT_TRUE(TestNode::pour(*first, "ef"));
  ASSERT_TRUE(first->finish());
  EXPECT_TRUE(append(upload, 6, "gh"));
}

TEST_P(UploadsTest, DropsAChunkThatFailsItsChecksum) {
  const Uuid upload = create(8);
  ASSERT_TRUE(append(upload, 0, "ab"));
  EXPECT_EQ(code_of(append(upload, 2, "cd",
                           ChunkChecksum{.algorithm = ChecksumAlgorithm::sha1,
                                         .digest = sha1(as_bytes("xx"))})),
            ErrorCode::corruption);
  EXPECT_EQ(offset(upload), 2U);
  ASSERT_TRUE(
      append(upload, 2, "cd",
             ChunkChecksum{.algorithm = ChecksumAlgorithm::sha1, .digest = sha1(as_bytes("cd"))}));
  std::string digest;
  for (int shift = 56; shift >= 0; shift -= 8) {
    digest.push_back(static_cast<char>(xxh3(as_bytes("efgh")) >> static_cast<unsigned>(shift)));
  }
  // An interrupted chunk with a checksum cannot be verified, so it goes.
  {
    const auto session =
        node_.uploads
            .append(
                node_.me, upload,
                {.offset = 4,
                 .checksum = ChunkChecksum{.algorithm = ChecksumAlgorithm::xxh3, .digest = digest}})
            .value();
    ASSERT_TRUE(TestNode::pour(*session, "ef"));
  }
  EXPECT_EQ(offset(upload), 4U);
  ASSERT_TRUE(append(upload, 4, "efgh",
                     ChunkChecksum{.algorithm = ChecksumAlgorithm::xxh3, .digest = digest}));
  EXPECT_EQ(node_.read(node_.me, id_, "up/file").value(), "abcdefgh");
}

TEST_P(UploadsTest, VerifiesTheWholeBeforeItCommits) {
  UploadRequest good = request(6);
  good.xxh3 = xxh3(as_bytes("abcdef"));
  const Uuid first = node_.uploads.create(node_.me, good)->id;
  ASSERT_TRUE(append(first, 0, "abc"));
  ASSERT_TRUE(append(first, 3, "def"));
  EXPECT_EQ(node_.read(node_.me, id_, "up/file").value(), "abcdef");
  // Another: the wrong bytes come, and the old file stays.
  const Uuid second = node_.uploads.create(node_.me, good)->id;
  ASSERT_TRUE(append(second, 0, "abc"));
  EXPECT_EQ(code_of(append(second, 3, "xyz")), ErrorCode::corruption);
  EXPECT_EQ(code_of(node_.uploads.status(node_.me, second)), ErrorCode::not_found);
  EXPECT_EQ(node_.read(node_.me, id_, "up/file").value(), "abcdef");
  EXPECT_EQ(staging(), 0U);
}

TEST_P(UploadsTest, HoldsPreconditionsAtTheCommit) {
  UploadRequest absent = request(1);
  absent.if_absent = true;
  const Uuid upload = node_.uploads.create(node_.me, absent)->id;
  ASSERT_TRUE(node_.put(node_.me, id_, "up/file", "theirs"));
  EXPECT_EQ(code_of(append(upload, 0, "m")), ErrorCode::condition_failed);
  EXPECT_EQ(node_.read(node_.me, id_, "up/file").value(), "theirs");
  EXPECT_EQ(code_of(node_.uploads.status(node_.me, upload)), ErrorCode::not_found);
  EXPECT_EQ(staging(), 0U);
}

TEST_P(UploadsTest, IsForThoseWhoMayWrite) {
  const Uuid upload = create(4);
  ASSERT_TRUE(append(upload, 0, "ab"));
  EXPECT_EQ(code_of(node_.uploads.status(node_.other, upload)), ErrorCode::not_found);
  EXPECT_EQ(node_.uploads.status(node_.other, upload).error().message(),
            node_.uploads.status(node_.other, Uuid::random()).error().message());
  EXPECT_EQ(code_of(node_.uploads.append(node_.other, upload, {.offset = 2})),
            ErrorCode::not_found);
  EXPECT_EQ(code_of(node_.uploads.terminate(node_.other, upload)), ErrorCode::not_found);
  ASSERT_TRUE(node_.vfolders.share(node_.me, id_, "other", catalog::Permission::read_write));
  EXPECT_TRUE(node_.uploads.status(node_.other, upload));
}

TEST_P(UploadsTest, TerminatesOnRequest) {
  const Uuid upload = create(4);
  ASSERT_TRUE(append(upload, 0, "ab"));
  ASSERT_TRUE(node_.uploads.terminate(node_.me, upload));
  EXPECT_EQ(code_of(node_.uploads.status(node_.me, upload)), ErrorCode::not_found);
  EXPECT_EQ(code_of(node_.uploads.terminate(node_.me, upload)), ErrorCode::not_found);
  EXPECT_EQ(staging(), 0U);
}

TEST_P(UploadsTest, GoesWithItsVFolder) {
  const Uuid upload = create(4);
  ASSERT_TRUE(node_.vfolders.remove(node_.me, id_));
  EXPECT_EQ(code_of(node_.uploads.status(node_.me, upload)), ErrorCode::not_found);
}

TEST_P(UploadsTest, TakesAGivenIdOnce) {
  UploadRequest with_id = request(4);
  with_id.id = Uuid::random();
  ASSERT_TRUE(node_.uploads.create(node_.me, with_id));
  ASSERT_TRUE(append(*with_id.id, 0, "ab"));
  EXPECT_EQ(code_of(node_.uploads.create(node_.me, with_id)), ErrorCode::already_exists);
  EXPECT_EQ(offset(*with_id.id), 2U);
}

TEST_P(UploadsTest, WhoIsTooLateToCreateFindsWhatWasCreated) {
  for (int round = 0; round < 20; ++round) {
    UploadRequest with_id = request(4);
    with_id.id = Uuid::random();
    std::atomic<int> made = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const auto created = node_.uploads.create(node_.me, with_id);
        if (created) ++made;
        if (!created) {
          EXPECT_EQ(created.error().code(), ErrorCode::already_exists);
        }
        EXPECT_EQ(offset(*with_id.id), 0U);
      });
    }
    threads.clear();
    EXPECT_EQ(made, 1);
  }
}

TEST_P(UploadsTest, RefusesWhatIsOverItsLimits) {
  Uploads small(node_.catalog(), node_.vfolders, clock_, node_.metrics,
                {.length_max = 100, .per_vfolder_max = 2});
  EXPECT_EQ(code_of(small.create(node_.me, request(101))), ErrorCode::too_large);
  EXPECT_TRUE(small.create(node_.me, request(100)));
  EXPECT_TRUE(small.create(node_.me, request(100)));
  EXPECT_EQ(code_of(small.create(node_.me, request(100))), ErrorCode::resource_exhausted);
  EXPECT_EQ(code_of(small.create(node_.me, {.vfolder = id_, .path = {}, .length = 1})),
            ErrorCode::invalid_argument);
}

TEST_P(UploadsTest, TakesManyUploadsFromManyThreads) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string path = "t" + std::to_string(t) + "/" + std::to_string(i);
        const auto made = node_.uploads.create(node_.me, request(6, path));
        ASSERT_TRUE(made) << made.error().message();
        EXPECT_TRUE(append(made->id, 0, "abc"));
        EXPECT_EQ(offset(made->id), 3U);
        EXPECT_TRUE(append(made->id, 3, "def")->etag);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(node_.vfolders.usage(node_.me, id_)->files, 40U);
  EXPECT_EQ(staging(), 0U);
}

TEST(UploadsExpiryTest, RemovesWhatNobodyTouchesAndKeepsWhatMoves) {
  const TempFolder folder;
  FakeClock clock;
  TestNode node(folder.path(), clock,
                {.backend = "memory",
                 .uploads = {.expiry = std::chrono::hours(10), .remembered = std::chrono::hours(1)},
                 .archives = {},
                 .volume_path = {}});
  const Uuid id = node.make("data");
  const auto create = [&](const std::string& path) {
    return node.uploads.create(node.me, {.vfolder = id, .path = rel(path), .length = 4})->id;
  };
  const Uuid idle = create("idle");
  const Uuid moving = create("moving");
  clock.advance(std::chrono::hours(8));
  {
    const auto session = node.uploads.append(node.me, moving, {.offset = 0}).value();
    ASSERT_TRUE(TestNode::pour(*session, "ab"));
    EXPECT_EQ(session->finish()->expires, clock.now() + std::chrono::hours(10));
  }
  clock.advance(std::chrono::hours(2));
  EXPECT_EQ(code_of(node.uploads.status(node.me, idle)), ErrorCode::not_found);
  EXPECT_EQ(node.uploads.remove_expired().value(), 1U);
  EXPECT_TRUE(node.uploads.status(node.me, moving));
  {
    const auto session = node.uploads.append(node.me, moving, {.offset = 2}).value();
    ASSERT_TRUE(TestNode::pour(*session, "cd"));
    clock.advance(std::chrono::hours(20));
    EXPECT_EQ(node.uploads.remove_expired().value(), 0U);  // in use
    EXPECT_TRUE(session->finish()->etag);
  }
  EXPECT_TRUE(node.uploads.status(node.me, moving));
  clock.advance(std::chrono::hours(1));
  EXPECT_EQ(node.uploads.remove_expired().value(), 1U);
  EXPECT_EQ(node.read(node.me, id, "moving").value(), "abcd");
}

TEST(UploadsRestartTest, GoesOnAfterARestartAndStillVerifiesTheWhole) {
  const TempFolder folder;
  SystemClock clock;
  Uuid id;
  Uuid upload;
  {
    TestNode node(folder.path(), clock);
    id = node.make("data");
    upload =
        node.uploads
            .create(
                node.me,
                {.vfolder = id, .path = rel("f"), .length = 6, .xxh3 = xxh3(as_bytes("abcdef"))})
            ->id;
    const auto session = node.uploads.append(node.me, upload, {.offset = 0}).value();
    ASSERT_TRUE(TestNode::pour(*session, "abc"));
    ASSERT_TRUE(session->finish());
  }
  TestNode node(folder.path(), clock);
  ASSERT_TRUE(node.recovery.start());
  EXPECT_EQ(node.uploads.status(node.me, upload)->offset, 3U);
  const auto session = node.uploads.append(node.me, upload, {.offset = 3}).value();
  ASSERT_TRUE(TestNode::pour(*session, "def"));
  const auto done = session->finish();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(node.read(node.me, id, "f").value(), "abcdef");
}

}  // namespace
}  // namespace onggi::vfolder
