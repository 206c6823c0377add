#include "api/backendai/upload_ledger.h"

#include <string>

#include <gtest/gtest.h>

#include "redis/test_server.h"

namespace onggi::api::backendai {
namespace {

constexpr const char* kSession = "11c995347b8a0e6729cec93befd6ab65";

class UploadLedgerTest : public testing::Test {
 protected:
  std::int64_t seconds_left(const std::string& kind) {
    return redis_.run(8, {"TTL", "tus.upload." + kind + ":" + kSession}).value().integer;
  }

  redis::TestServer server_;
  redis::Client redis_{server_.options()};
  UploadLedger ours_{redis_, "ours"};
  UploadLedger theirs_{redis_, "theirs"};
};

TEST_F(UploadLedgerTest, KeysAreThoseOfThePythonProxy) {
  ASSERT_TRUE(ours_.begin(kSession));
  EXPECT_EQ(redis_.run(8, {"GET", std::string("tus.upload.offset:") + kSession}).value().text, "0");
  EXPECT_GT(seconds_left("offset"), 86'000);
  auto lease = ours_.claim(kSession);
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(lease->holder.starts_with("ours:"));
  EXPECT_EQ(redis_.run(8, {"GET", std::string("tus.upload.lease:") + kSession}).value().text,
            lease->holder);
  EXPECT_GT(seconds_left("lease"), 25);
  EXPECT_LE(seconds_left("lease"), 30);
}

TEST_F(UploadLedgerTest, OneWritesAtATime) {
  ASSERT_TRUE(ours_.begin(kSession));
  auto lease = ours_.claim(kSession);
  ASSERT_TRUE(lease);
  const auto second = theirs_.claim(kSession);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);

  ASSERT_TRUE(ours_.advance(*lease, 10));
  EXPECT_EQ(lease->offset, 10U);
  EXPECT_EQ(theirs_.offset(kSession).value(), 10U);
  EXPECT_FALSE(theirs_.claim(kSession));
  ASSERT_TRUE(ours_.finish(*lease, 5));
  auto next = theirs_.claim(kSession);
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->offset, 15U);
}

TEST_F(UploadLedgerTest, ALostLeaseMovesNothing) {
  ASSERT_TRUE(ours_.begin(kSession));
  auto lease = ours_.claim(kSession);
  ASSERT_TRUE(lease);
  ASSERT_TRUE(redis_.run(8, {"DEL", std::string("tus.upload.lease:") + kSession}));  // it expired
  auto other = theirs_.claim(kSession);
  ASSERT_TRUE(other);
  for (const Status& status : {ours_.advance(*lease, 10), ours_.finish(*lease, 10)}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::condition_failed);
  }
  EXPECT_EQ(ours_.offset(kSession).value(), 0U);
  ASSERT_TRUE(ours_.release(*lease));  // is not the other's
  EXPECT_TRUE(theirs_.finish(*other, 3));
  EXPECT_EQ(ours_.offset(kSession).value(), 3U);
}

TEST_F(UploadLedgerTest, AnUnknownSessionLeavesNoLease) {
  EXPECT_EQ(ours_.offset(kSession).value(), std::nullopt);
  const auto lease = ours_.claim(kSession);
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), ErrorCode::not_found);
  EXPECT_EQ(seconds_left("lease"), -2);
}

TEST_F(UploadLedgerTest, ALeaseThatIsExtendedLasts) {
  ASSERT_TRUE(ours_.begin(kSession));
  const auto lease = ours_.claim(kSession);
  ASSERT_TRUE(lease);
  ASSERT_TRUE(redis_.run(8, {"EXPIRE", std::string("tus.upload.lease:") + kSession, "5"}));
  ASSERT_TRUE(ours_.extend(*lease));
  EXPECT_GT(seconds_left("lease"), 25);
}

TEST_F(UploadLedgerTest, WithoutRedisItIsUnavailable) {
  server_.stop();
  EXPECT_EQ(ours_.begin(kSession).error().code(), ErrorCode::unavailable);
  EXPECT_EQ(ours_.offset(kSession).error().code(), ErrorCode::unavailable);
  EXPECT_EQ(ours_.claim(kSession).error().code(), ErrorCode::unavailable);
}

}  // namespace
}  // namespace onggi::api::backendai
