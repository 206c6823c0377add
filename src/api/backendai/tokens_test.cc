#include "api/backendai/tokens.h"

#include <string>

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace onggi::api::backendai {
namespace {

using std::chrono::seconds;

constexpr const char* kVFolder =
    "user:0fb116ce-a1d1-4349-bd9c-f22dd6247511/54a14cc92e0a401d87cf27bd9b8eed07";

// Made by PyJWT 2, key "jwt-secret-for-tests" unless said otherwise.
constexpr const char* kOfPython =
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJvcCI6InVwbG9hZCIsInZvbHVtZSI6InZvbHVtZTE"
    "iLCJ2ZmlkIjoidXNlcjowZmIxMTZjZS1hMWQxLTQzNDktYmQ5Yy1mMjJkZDYyNDc1MTEvNTRhMTRjYzk"
    "yZTBhNDAxZDg3Y2YyN2JkOWI4ZWVkMDciLCJyZWxwYXRoIjoiZC9lL1x1YzYzOS5iaW4iLCJzaXplIjo"
    "xMiwic2Vzc2lvbiI6IjExYzk5NTM0N2I4YTBlNjcyOWNlYzkzYmVmZDZhYjY1IiwiZXhwIjo0MDAwMDA"
    "wMDAwfQ.dMpnSDP-SaEpA2HOqoqWZi0jaRW5xeu3478snkAb3pw";
constexpr const char* kWithoutExpiry =
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJvcCI6ImRvd25sb2FkIiwidm9sdW1lIjoidiJ9.o6"
    "rAfJ-Db3QoTwaN8I4IFt1oUD3TfXVIK8HNkn87E5Q";
constexpr const char* kOtherAlgorithm =
    "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJvcCI6InVwbG9hZCIsInZvbHVtZSI6InZvbHVtZTE"
    "iLCJ2ZmlkIjoidXNlcjowZmIxMTZjZS1hMWQxLTQzNDktYmQ5Yy1mMjJkZDYyNDc1MTEvNTRhMTRjYzk"
    "yZTBhNDAxZDg3Y2YyN2JkOWI4ZWVkMDciLCJyZWxwYXRoIjoiZC9lL1x1YzYzOS5iaW4iLCJzaXplIjo"
    "xMiwic2Vzc2lvbiI6IjExYzk5NTM0N2I4YTBlNjcyOWNlYzkzYmVmZDZhYjY1IiwiZXhwIjo0MDAwMDA"
    "wMDAwfQ.1c0IA_TWz-gUlYFwp-QZBTfUmzsMYpRCgv9lq9YgftEozATIz2loKSB38xmPvbiww5OkM_4d"
    "r_W5MpqIKxWtuQ";
constexpr const char* kUnsigned =
    "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJvcCI6InVwbG9hZCIsInZvbHVtZSI6InZvbHVtZTEi"
    "LCJ2ZmlkIjoidXNlcjowZmIxMTZjZS1hMWQxLTQzNDktYmQ5Yy1mMjJkZDYyNDc1MTEvNTRhMTRjYzky"
    "ZTBhNDAxZDg3Y2YyN2JkOWI4ZWVkMDciLCJyZWxwYXRoIjoiZC9lL1x1YzYzOS5iaW4iLCJzaXplIjox"
    "Miwic2Vzc2lvbiI6IjExYzk5NTM0N2I4YTBlNjcyOWNlYzkzYmVmZDZhYjY1IiwiZXhwIjo0MDAwMDAw"
    "MDAwfQ.";

class TokensTest : public testing::Test {
 protected:
  std::string decode_error(std::string_view token) const {
    const auto claims = tokens_.decode(token);
    return claims ? "none" : claims.error().message();
  }

  FakeClock clock_;
  Tokens tokens_{"jwt-secret-for-tests", seconds(100), clock_};
};

TEST_F(TokensTest, ReadsWhatItIssued) {
  const VFolderId vfolder = VFolderId::parse(kVFolder).value();
  const auto download = tokens_.read_download(
      tokens_
          .issue(DownloadGrant{
              .volume = "v", .vfolder = vfolder, .path = "a/\xEC\x98\xB9", .archive = true})
          .value());
  ASSERT_TRUE(download.grant) << download.wrong;
  EXPECT_EQ(download.grant->volume, "v");
  EXPECT_EQ(download.grant->vfolder.to_string(), kVFolder);
  EXPECT_EQ(download.grant->path, "a/\xEC\x98\xB9");
  EXPECT_TRUE(download.grant->archive);

  const auto upload = tokens_.read_upload(tokens_
                                              .issue(UploadGrant{.volume = "v",
                                                                 .vfolder = vfolder,
                                                                 .path = "b",
                                                                 .size_bytes = 1LL << 40,
                                                                 .session = "0a"})
                                              .value());
  ASSERT_TRUE(upload.grant) << upload.wrong;
  EXPECT_EQ(upload.grant->size_bytes, 1LL << 40);
  EXPECT_EQ(upload.grant->session, "0a");

  const auto archive = tokens_.read_archive(
      tokens_.issue(ArchiveGrant{.volume = "v", .vfolder = vfolder, .files = {"a", "b/c"}})
          .value());
  ASSERT_TRUE(archive.grant) << archive.wrong;
  EXPECT_EQ(archive.grant->files, (std::vector<std::string>{"a", "b/c"}));
  EXPECT_EQ(archive.grant->filename, std::nullopt);
}

TEST_F(TokensTest, ReadsWhatAPythonProxyIssued) {
  const auto upload = tokens_.read_upload(kOfPython);
  ASSERT_TRUE(upload.grant) << upload.wrong;
  EXPECT_EQ(upload.grant->volume, "volume1");
  EXPECT_EQ(upload.grant->vfolder.to_string(), kVFolder);
  EXPECT_EQ(upload.grant->path, "d/e/\xEC\x98\xB9.bin");
  EXPECT_EQ(upload.grant->size_bytes, 12);
  EXPECT_EQ(upload.grant->session, "11c995347b8a0e6729cec93befd6ab65");
}

TEST_F(TokensTest, ATokenIsGoodUntilItExpires) {
  const std::string token =
      tokens_
          .issue(DownloadGrant{
              .volume = "v", .vfolder = VFolderId::parse(kVFolder).value(), .path = "a"})
          .value();
  clock_.advance(seconds(99));
  EXPECT_TRUE(tokens_.read_download(token).grant);
  clock_.advance(seconds(1));
  EXPECT_EQ(tokens_.read_download(token).wrong,
            boost::json::value("cannot decode the given value as JWT: Signature has expired"));
  EXPECT_EQ(decode_error(kWithoutExpiry), "none");
}

TEST_F(TokensTest, RefusesInTheWordsOfPyJwt) {
  EXPECT_EQ(decode_error("garbage"), "Not enough segments");
  EXPECT_EQ(decode_error(""), "Not enough segments");
  EXPECT_EQ(decode_error("a.b"), "Not enough segments");
  EXPECT_EQ(decode_error("a.b.c"), "Invalid token");
  EXPECT_EQ(decode_error(kOtherAlgorithm), "The specified alg value is not allowed");
  EXPECT_EQ(decode_error(kUnsigned), "The specified alg value is not allowed");
  EXPECT_EQ(decode_error(std::string(kOfPython) + "x"), "Signature verification failed");
  Tokens others("another secret", seconds(100), clock_);
  const auto claims = others.decode(kOfPython);
  ASSERT_FALSE(claims);
  EXPECT_EQ(claims.error().message(), "Signature verification failed");
}

TEST_F(TokensTest, ANulIsRefused) {
  const auto token = tokens_.issue(DownloadGrant{.volume = "v",
                                                 .vfolder = VFolderId::parse(kVFolder).value(),
                                                 .path = std::string("a\0b", 3)});
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code(), ErrorCode::invalid_argument);
}

TEST_F(TokensTest, ATokenForSomethingElseTellsTheClaim) {
  EXPECT_EQ(tokens_.read_download(kOfPython).wrong,
            boost::json::value({{"op", "value is not exactly 'download'"}}));
  const auto archive = tokens_.read_archive(kWithoutExpiry);
  EXPECT_FALSE(archive.grant);
  EXPECT_EQ(archive.wrong.at("virtual_folder_id"), "is required");
}

}  // namespace
}  // namespace onggi::api::backendai
