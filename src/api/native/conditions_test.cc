#include "api/native/conditions.h"

#include <gtest/gtest.h>

namespace onggi::api {
namespace {

backend::FileInfo file_of(std::uint64_t size) {
  backend::FileInfo info;
  info.size_bytes = size;
  info.modified = UnixTime(std::chrono::milliseconds(784'111'777'250));
  info.etag = "v1";
  return info;
}

http::Headers with(std::string name, std::string value) {
  http::Headers headers;
  headers.set(std::move(name), std::move(value));
  return headers;
}

RangeChoice range_of(std::string text, std::uint64_t size = 10) {
  return choose_range(with("Range", std::move(text)), file_of(size));
}

void expect_part(const RangeChoice& choice, std::uint64_t first, std::uint64_t length) {
  EXPECT_EQ(choice.kind, RangeKind::part);
  EXPECT_EQ(choice.range.first, first);
  EXPECT_EQ(choice.range.length, length);
}

TEST(HttpDateTest, IsTheOneFormThatSendersMayGenerate) {
  EXPECT_EQ(http_date(file_of(0).modified), "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(HttpDateTest, ReadsWhatItWrites) {
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            UnixTime(std::chrono::seconds(784'111'777)));
}

TEST(HttpDateTest, TakesNonsenseForAbsent) {
  for (const char* text :
       {"", "yesterday", "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Abc 1994 08:49:37 GMT", "Sun, -6 Nov 1994 08:49:37 GMT"}) {
    EXPECT_FALSE(parse_http_date(text)) << text;
  }
}

TEST(RangeTest, ChoosesOnePart) {
  expect_part(range_of("bytes=0-3"), 0, 4);
  expect_part(range_of("bytes=3-"), 3, 7);
  expect_part(range_of("bytes=-4"), 6, 4);
  expect_part(range_of("bytes=-40"), 0, 10);
  expect_part(range_of("bytes=9-99"), 9, 1);
  expect_part(range_of("bytes=0-18446744073709551615"), 0, 10);
}

TEST(RangeTest, CannotSatisfyWhatLiesOutside) {
  EXPECT_EQ(range_of("bytes=10-").kind, RangeKind::unsatisfiable);
  EXPECT_EQ(range_of("bytes=-0").kind, RangeKind::unsatisfiable);
  EXPECT_EQ(range_of("bytes=0-", 0).kind, RangeKind::unsatisfiable);
}

TEST(RangeTest, GivesTheWholeForWhatItDoesNotUnderstand) {
  for (const char* text :
       {"bytes=0-1,4-5", "bytes=3-1", "bytes=a-b", "bytes=", "bytes=-", "lines=1-2", "bytes 0-1"}) {
    EXPECT_EQ(range_of(text).kind, RangeKind::whole) << text;
  }
}

TEST(RangeTest, CountsOnlyWhileIfRangeHolds) {
  http::Headers headers = with("Range", "bytes=0-3");
  for (const auto& [condition, kind] :
       {std::pair("\"v1\"", RangeKind::part), std::pair("\"v0\"", RangeKind::whole),
        std::pair("W/\"v1\"", RangeKind::whole),
        std::pair("Sun, 06 Nov 1994 08:49:37 GMT", RangeKind::part),
        std::pair("Sun, 06 Nov 1994 08:49:38 GMT", RangeKind::whole)}) {
    headers.set("If-Range", condition);
    EXPECT_EQ(choose_range(headers, file_of(10)).kind, kind) << condition;
  }
}

TEST(ReadConditionTest, ComparesWeaklyAndInLists) {
  const backend::FileInfo file = file_of(1);
  for (const char* text : {"\"v1\"", "W/\"v1\"", "\"v0\", \"v1\"", "*", " \"v0\" ,W/\"v1\""}) {
    EXPECT_EQ(check_read(with("If-None-Match", text), file), ReadCondition::not_modified) << text;
  }
  for (const char* text : {"\"v0\"", "v1", "\"v1", ""}) {
    EXPECT_EQ(check_read(with("If-None-Match", text), file), ReadCondition::proceed) << text;
  }
}

TEST(ReadConditionTest, KnowsDatesToTheSecond) {
  const backend::FileInfo file = file_of(1);
  EXPECT_EQ(check_read(with("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"), file),
            ReadCondition::not_modified);
  EXPECT_EQ(check_read(with("If-Modified-Since", "Sun, 06 Nov 1994 08:49:36 GMT"), file),
            ReadCondition::proceed);
}

TEST(ReadConditionTest, FailsForAnotherVersion) {
  EXPECT_EQ(check_read(with("If-Match", "\"v0\""), file_of(1)), ReadCondition::failed);
}

TEST(WriteConditionsTest, PicksTheVersionThereIs) {
  const auto conditions =
      write_conditions(with("If-Match", "\"v0\", \"v1\""), [] { return file_of(1); });
  ASSERT_TRUE(conditions);
  EXPECT_EQ(conditions->if_etag, "v1");
}

TEST(WriteConditionsTest, FailsWhereThereIsNone) {
  const auto conditions = write_conditions(
      with("If-Match", "*"),
      []() -> Result<backend::FileInfo> { return fail(ErrorCode::not_found, "none"); });
  ASSERT_FALSE(conditions);
  EXPECT_EQ(conditions.error().code(), ErrorCode::condition_failed);
}

TEST(WriteConditionsTest, CreatesOnlyForAStar) {
  EXPECT_TRUE(write_conditions(with("If-None-Match", "*"), {})->if_absent);
  EXPECT_FALSE(write_conditions(with("If-None-Match", "\"v1\""), {}));
}

}  // namespace
}  // namespace onggi::api
