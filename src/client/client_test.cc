#include "client/client.h"

#include <gtest/gtest.h>

#include "client/remote_url.h"

namespace onggi::client {
namespace {

TEST(RemoteUrlTest, SplitsIntoVolumeVfolderAndPath) {
  const auto url = parse_remote_url("onggi://local/fashion/train/0");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->volume, "local");
  EXPECT_EQ(url->vfolder, "fashion");
  EXPECT_EQ(url->path, "train/0");
  EXPECT_FALSE(url->trailing_slash);
  EXPECT_EQ(url->to_string(), "onggi://local/fashion/train/0");
}

TEST(RemoteUrlTest, AcceptsShortFormsAndSpareSlashes) {
  EXPECT_EQ(parse_remote_url("local/fashion")->vfolder, "fashion");
  EXPECT_EQ(parse_remote_url("onggi://local")->vfolder, "");
  const auto url = parse_remote_url("onggi://local/fashion//a///b/");
  EXPECT_EQ(url->path, "a/b");
  EXPECT_TRUE(url->trailing_slash);
}

TEST(RemoteUrlTest, RefusesOtherUrlsAndDots) {
  for (const char* text : {"s3://bucket/x", "onggi://", "onggi://v/f/../x", "onggi://v/f/./x"}) {
    const auto url = parse_remote_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code(), ErrorCode::invalid_argument);
  }
}

TEST(TimeTest, ReadsWhatTheDaemonWrites) {
  EXPECT_EQ(parse_time("1970-01-01T00:00:01.250Z")->time_since_epoch().count(), 1250);
  EXPECT_EQ(parse_time("2026-11-30T09:41:07Z")->time_since_epoch().count(), 1'796'031'667'000);
  for (const char* text : {"1970-01-01T00:00:00.000Z", "2026-11-30T09:41:07.123Z"}) {
    EXPECT_EQ(format_time(*parse_time(text)), text);
  }
  for (const char* text : {"", "2026", "2026-13-01T00:00:00Z", "2026-11-30 09:41:07"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

TEST(ErrorOfTest, CarriesTheProblemsDetail) {
  const Error error = error_of({.status = 404,
                                .headers = {},
                                .body = R"({"code":"not_found","detail":"no such file","status":404,
                                            "title":"Not Found","request_id":"r1"})"});
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.message(), "no such file");
}

TEST(ErrorOfTest, SaysSoWhenThereAreNoProblemDetails) {
  const Error error = error_of({.status = 502, .headers = {}, .body = "<html>"});
  EXPECT_EQ(error.code(), ErrorCode::internal);
  EXPECT_NE(error.message().find("502"), std::string::npos);
}

TEST(ErrorOfTest, NamesTheRequestOfAnInternalError) {
  const Error error = error_of({.status = 500,
                                .headers = {},
                                .body = R"({"code":"internal","detail":"x","request_id":"r9"})"});
  EXPECT_NE(error.message().find("r9"), std::string::npos);
}

TEST(ErrorCodeTest, EveryNameIsRead) {
  EXPECT_EQ(parse_error_code("storage_full"), ErrorCode::storage_full);
  EXPECT_EQ(parse_error_code("corruption"), ErrorCode::corruption);
  EXPECT_EQ(parse_error_code("of a later version"), ErrorCode::internal);
}

TEST(ClosestTest, FindsWhatWasMeant) {
  EXPECT_EQ(closest("fashoin", {"fashion", "photos"}), "fashion");
  EXPECT_EQ(closest("ls", {"rm", "cp"}), std::nullopt);
  EXPECT_EQ(closest("volum", {"volume", "vfolder"}), "volume");
}

TEST(TargetTest, EncodesNamesButNotSlashes) {
  EXPECT_EQ(vfolder_target("id", "files", "a b/c?d#e"), "/v1/vfolders/id/files/a%20b/c%3Fd%23e");
}

}  // namespace
}  // namespace onggi::client
