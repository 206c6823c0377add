#include "api/backendai/parameters.h"

#include <string>

#include <gtest/gtest.h>

namespace onggi::api::backendai {
namespace {

constexpr const char* kVFolder =
    "user:0fb116ce-a1d1-4349-bd9c-f22dd6247511/54a14cc92e0a401d87cf27bd9b8eed07";

http::Request with_body(std::string body) {
  http::Request request;
  request.body = std::move(body);
  return request;
}

// The refusal's text, "none" without one.
std::string refused(Parameters& parameters) {
  const auto response = parameters.refusal();
  if (!response) return "none";
  EXPECT_EQ(response->status, 400);
  EXPECT_EQ(response->headers.get("Content-Type"), "application/problem+json; charset=utf-8");
  return response->text;
}

std::string with_data(const std::string& data) {
  return R"({"type":"https://api.backend.ai/probs/storage/invalid-api-params",)"
         R"("title":"Invalid API parameters","data":)" +
         data + "}";
}

TEST(ParametersTest, ReadsEachKind) {
  Parameters parameters(with_body(std::string(R"({"volume":"v","vfid":")") + kVFolder +
                                  R"(","relpath":["a//b","./c"],"parents":"no","size":" 1_2 ",)"
                                  R"("mode":null,"options":{"limit_bytes":"5"}})"));
  EXPECT_EQ(parameters.text("volume"), "v");
  EXPECT_EQ(parameters.vfolder("vfid").to_string(), kVFolder);
  EXPECT_EQ(parameters.path_or_paths("relpath", 50), (std::vector<std::string>{"a/b", "c"}));
  EXPECT_FALSE(parameters.flag("parents", true));
  EXPECT_TRUE(parameters.flag("exist_ok", true));
  EXPECT_EQ(parameters.number("size"), 12);
  EXPECT_EQ(parameters.nullable_number("mode"), std::nullopt);
  EXPECT_EQ(parameters.quota("options", false), 5);
  EXPECT_EQ(parameters.text_or("subpath", "."), ".");
  EXPECT_EQ(refused(parameters), "none");
}

// Recorded from backend.ai-storage-proxy 26.9.6.
TEST(ParametersTest, AllThatIsWrongIsToldAtOnce) {
  Parameters two(with_body(R"({"volume":1,"z":2})"));
  two.text("volume");
  EXPECT_EQ(refused(two),
            with_data(R"({"volume":"value is not a string","z":"z is not allowed key"})"));

  Parameters missing(with_body("{}"));
  missing.text("volume");
  EXPECT_EQ(refused(missing), with_data(R"({"volume":"is required"})"));

  Parameters scope(with_body(R"({"qsid":"!","options":{}})"));
  scope.quota_scope("qsid");
  scope.quota("options", true);
  EXPECT_EQ(
      refused(scope),
      with_data(R"({"qsid":"does not match pattern ^[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*:)"
                R"([A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*$","options":{"limit_bytes":"is required"}})"));

  Parameters kinds(with_body(R"({"vfid":"zz","size":"x","relpath":7,"abs":"/abs"})"));
  kinds.vfolder("vfid");
  kinds.number("size");
  kinds.path("relpath");
  kinds.path("abs");
  EXPECT_EQ(
      refused(kinds),
      with_data(
          R"({"vfid":"cannot convert value to UUID","size":"value can't be converted to int",)"
          R"("relpath":"cannot parse value as a path",)"
          R"("abs":"expected relative path but the value is absolute"})"));

  Parameters list(with_body("[1]"));
  list.text("volume");
  EXPECT_EQ(refused(list), with_data(R"("value is not a dict")"));
}

TEST(ParametersTest, ABodyThatIsNoJsonIsRefused) {
  for (const char* body : {"", "{", R"({"volume":"v"} x)", "\xFF"}) {
    Parameters parameters(with_body(body));
    parameters.text("volume");
    EXPECT_NE(refused(parameters).find("Malformed request body."), std::string::npos) << body;
  }
}

TEST(ParametersTest, OthersMayBeAllowed) {
  Parameters parameters(with_body(R"({"volume":"v","z":1})"));
  parameters.text("volume");
  parameters.allow_others();
  EXPECT_EQ(refused(parameters), "none");
}

TEST(ParametersTest, ListsAreBounded) {
  Parameters parameters(with_body(R"({"relpath":["a","b","c"]})"));
  parameters.path_or_paths("relpath", 2);
  EXPECT_EQ(refused(parameters), with_data(R"({"relpath":"list length is greater than 2"})"));
}

TEST(ParametersTest, NumbersAreThoseOfPython) {
  for (const char* good : {"12", "\"12\"", "12.9", "\"+12\"", "\"1_2\""}) {
    Parameters parameters(with_body(std::string(R"({"size":)") + good + "}"));
    EXPECT_EQ(parameters.number("size"), 12) << good;
    EXPECT_EQ(refused(parameters), "none") << good;
  }
  for (const char* bad : {"\"\"", "\"1__2\"", "\"_1\"", "\"1_\"", "\"+-1\"", "null", "[]", "1e300",
                          "\"99999999999999999999\""}) {
    Parameters parameters(with_body(std::string(R"({"size":)") + bad + "}"));
    parameters.number("size");
    EXPECT_NE(refused(parameters), "none") << bad;
  }
}

}  // namespace
}  // namespace onggi::api::backendai
