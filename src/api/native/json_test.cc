#include "api/native/json.h"

#include <generated/api/types.h>
#include <gtest/gtest.h>

namespace onggi::api {
namespace {

template <typename T>
std::string error_of(std::string_view text) {
  const Result<boost::json::value> value = parse_json(text);
  if (!value) return value.error().message();
  T out;
  const Status status = read(*value, "", out);
  return status ? "" : status.error().message();
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(JsonTest, ReadsABody) {
  Move move;
  ASSERT_TRUE(read(*parse_json(R"({"from":"a","to":"b","replace":true})"), "", move));
  EXPECT_EQ(move.from, "a");
  EXPECT_TRUE(move.replace);
}

TEST(JsonTest, TakesDefaultsForAbsentFields) {
  Move move;
  ASSERT_TRUE(read(*parse_json(R"({"from":"a","to":"b"})"), "", move));
  EXPECT_FALSE(move.replace);
}

TEST(JsonTest, NamesThePointerOfEveryFault) {
  EXPECT_TRUE(says(error_of<Move>(R"({"from":"a"})"), "\"/to\" is missing"));
  EXPECT_TRUE(says(error_of<Move>(R"({"from":1,"to":"b"})"), "\"/from\" must be a string"));
  EXPECT_TRUE(says(error_of<Move>(R"({"from":"a","to":"b","x":1})"), "\"/x\" is unknown"));
  EXPECT_TRUE(says(error_of<Move>(R"({"from":"a","to":"b","a/b~":1})"), "\"/a~1b~0\" is unknown"));
  EXPECT_TRUE(says(error_of<VolumeCreate>(R"({"name":"a","backend":"b","options":{"path":1}})"),
                   "\"/options/path\" must be a string"));
  EXPECT_TRUE(says(error_of<ShareGrant>(R"({"permission":"all"})"),
                   "\"/permission\" must be one of owner, read_write, read_only"));
  EXPECT_TRUE(says(error_of<VFolderCreate>(R"({"volume":"v","name":"n","quota_scope":"x"})"),
                   "\"/quota_scope\" must be a UUID"));
  EXPECT_TRUE(says(error_of<TokenCreate>(R"({"name":"n","expires_in_seconds":0})"),
                   "\"/expires_in_seconds\" must be from 1"));
  EXPECT_TRUE(says(error_of<TokenCreate>(R"({"name":"n","expires_in_seconds":-1})"),
                   "\"/expires_in_seconds\" must be an integer"));
  EXPECT_TRUE(says(error_of<Move>("[]"), "\"/\" must be an object"));
}

TEST(JsonTest, RefusesWhatIsNotJson) {
  EXPECT_TRUE(says(error_of<Move>("{"), "not JSON"));
  EXPECT_TRUE(says(error_of<Move>(""), "not JSON"));
  EXPECT_TRUE(says(error_of<Move>("{\"from\":\"\xff\"}"), "not JSON"));
  EXPECT_TRUE(says(error_of<Move>(std::string(100'000, '[')), "not JSON"));
}

TEST(JsonTest, WritesWhatItsParserReads) {
  std::string text;
  write(
      text,
      Tenant{.id = {}, .name = "a\"\\\n\x01ü", .created = UnixTime(std::chrono::milliseconds(1))});
  const auto value = parse_json(text);
  ASSERT_TRUE(value) << text;
  EXPECT_EQ(value->at("name").as_string(), "a\"\\\n\x01ü");
  EXPECT_EQ(value->at("created").as_string(), "1970-01-01T00:00:00.001Z");
}

TEST(JsonTest, LeavesOutWhatIsAbsent) {
  std::string text;
  write(text, VolumeList{.items = {{.name = "v",
                                    .backend = "b",
                                    .configured = true,
                                    .error = {},
                                    .capabilities = {"direct"},
                                    .space = {},
                                    .options = {}}}});
  EXPECT_EQ(
      text,
      R"({"items":[{"name":"v","backend":"b","configured":true,"capabilities":["direct"]}]})");
}

TEST(JsonTest, WritesTimesBeforeAndAfterTheEpoch) {
  EXPECT_EQ(rfc3339(UnixTime(std::chrono::milliseconds(-1))), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(rfc3339(UnixTime(std::chrono::milliseconds(1'709'210'096'789))),
            "2024-02-29T12:34:56.789Z");
}

}  // namespace
}  // namespace onggi::api
