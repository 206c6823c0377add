#include "vfolder/transfer_tokens.h"

#include <chrono>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/encoding.h"
#include "catalog/sqlite/sqlite_catalog.h"
#include "vfolder/temp_folder.h"

namespace onggi::vfolder {
namespace {

class TransferTokensTest : public testing::Test {
 protected:
  TransferTokensTest()
      : catalog_(catalog::open_sqlite_catalog({.path = folder_.file("catalog.db")}).value()),
        tokens_(TransferTokens::open(*catalog_, clock_).value()) {
    clock_.advance(std::chrono::hours(24 * 365 * 50) + std::chrono::milliseconds(250));
  }

  NewTransferToken issue(TransferOperation operation, const std::string& path = "a/b.bin") {
    return tokens_
        .issue(caller_, {.operation = operation,
                         .vfolder = vfolder_,
                         .path = backend::RelPath::parse(path).value(),
                         .size_bytes = std::uint64_t{1} << 53U,
                         .expires_in = std::chrono::seconds(60)})
        .value();
  }

  ErrorCode refusal(std::string_view token) {
    const auto result = tokens_.verify(token, TransferOperation::download);
    return result ? ErrorCode::internal : result.error().code();
  }

  static std::string encode(const std::string& text) { return base64url_encode(as_bytes(text)); }

  TempFolder folder_;
  FakeClock clock_;
  std::unique_ptr<catalog::Catalog> catalog_;
  TransferTokens tokens_;
  Principal caller_{.tenant = Uuid::random(), .scope = catalog::Scope::admin, .token_id = "test"};
  Uuid vfolder_ = Uuid::random();
};

TEST_F(TransferTokensTest, GivesBackWhatWasGranted) {
  const auto made = issue(TransferOperation::upload, "데이터/\"quoted\\ name\".bin");
  const auto grant = tokens_.verify(made.token, TransferOperation::upload);
  ASSERT_TRUE(grant) << grant.error().message();
  EXPECT_EQ(grant->vfolder, vfolder_);
  EXPECT_EQ(grant->tenant, caller_.tenant);
  EXPECT_EQ(grant->path.text(), "데이터/\"quoted\\ name\".bin");
  EXPECT_EQ(grant->size_bytes, std::uint64_t{1} << 53U);
  EXPECT_EQ(grant->id, made.grant.id);
  EXPECT_EQ(grant->expires, made.grant.expires);
  // The bearer acts for the tenant, never as the admin who issued it.
  EXPECT_FALSE(grant->principal().is_admin());
}

TEST_F(TransferTokensTest, IsForOneOperation) {
  const auto made = issue(TransferOperation::upload);
  EXPECT_EQ(refusal(made.token), ErrorCode::permission_denied);
}

TEST_F(TransferTokensTest, Expires) {
  const auto made = issue(TransferOperation::download);
  clock_.advance(std::chrono::seconds(60));
  EXPECT_TRUE(tokens_.verify(made.token, TransferOperation::download));
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(refusal(made.token), ErrorCode::unauthenticated);
}

TEST_F(TransferTokensTest, RefusesGarbageUnsignedAndForeignTokens) {
  const std::string good = issue(TransferOperation::download).token;
  const std::string payload = good.substr(good.find('.') + 1, good.rfind('.') - good.find('.') - 1);
  std::string flipped = good;
  flipped[good.find('.') + 3] ^= 1;
  const std::string none = encode(R"({"alg":"none"})");
  const std::string hs384 = encode(R"({"alg":"HS384","typ":"JWT"})");
  for (const std::string& token :
       {std::string(), std::string("x"), std::string("a.b.c"), std::string(".."), flipped,
        none + "." + payload + ".", none + "." + payload + good.substr(good.rfind('.')),
        hs384 + "." + payload + good.substr(good.rfind('.')), good.substr(0, good.size() - 1),
        good + std::string(1, '\0'), std::string(20000, 'a'), "." + good}) {
    EXPECT_EQ(refusal(token), ErrorCode::unauthenticated) << token;
  }
  const TempFolder other_folder;
  const auto other =
      catalog::open_sqlite_catalog({.path = other_folder.file("catalog.db")}).value();
  const auto foreign = TransferTokens::open(*other, clock_).value();
  EXPECT_FALSE(foreign.verify(good, TransferOperation::download));
}

TEST_F(TransferTokensTest, StaysValidAfterARestart) {
  const std::string good = issue(TransferOperation::download).token;
  const auto again = TransferTokens::open(*catalog_, clock_).value();
  EXPECT_TRUE(again.verify(good, TransferOperation::download));
}

TEST_F(TransferTokensTest, RefusesARequestForTooLongOrForNoFile) {
  TransferRequest request{.operation = TransferOperation::download,
                          .vfolder = vfolder_,
                          .path = backend::RelPath::parse("a").value(),
                          .size_bytes = {},
                          .expires_in = std::chrono::seconds(8 * 24 * 3600)};
  EXPECT_FALSE(tokens_.issue(caller_, request));
  request.expires_in = std::chrono::seconds(0);
  EXPECT_FALSE(tokens_.issue(caller_, request));
  request.expires_in = std::chrono::seconds(1);
  request.path = backend::RelPath();
  EXPECT_FALSE(tokens_.issue(caller_, request));
}

}  // namespace
}  // namespace onggi::vfolder
