#include "api/backendai/identifiers.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace onggi::api::backendai {
namespace {

constexpr const char* kScope = "0fb116ce-a1d1-4349-bd9c-f22dd6247511";
constexpr const char* kFolder = "54a14cc9-2e0a-401d-87cf-27bd9b8eed07";
constexpr const char* kFolderHex = "54a14cc92e0a401d87cf27bd9b8eed07";

std::string error_of(const char* vfid) {
  const auto id = VFolderId::parse(vfid);
  return id ? "none" : id.error().message();
}

TEST(VFolderIdTest, BothSpellingsOfAUuidGiveTheCanonicalText) {
  const std::string canonical = std::string("user:") + kScope + "/" + kFolderHex;
  for (const std::string& text :
       {std::string("user:") + kScope + "/" + kFolder, canonical,
        std::string("USER:0fb116cea1d14349bd9cf22dd6247511/") + kFolderHex}) {
    const auto id = VFolderId::parse(text);
    ASSERT_TRUE(id) << text << ": " << id.error().message();
    EXPECT_EQ(id->to_string(), canonical);
    EXPECT_EQ(id->address()->quota_scope.to_string(), kScope);
    EXPECT_EQ(id->address()->id.to_string(), kFolder);
  }
}

TEST(VFolderIdTest, AFolderWithoutQuotaScopeHasNoAddress) {
  const auto id = VFolderId::parse(kFolder);
  ASSERT_TRUE(id);
  EXPECT_EQ(id->to_string(), kFolderHex);
  EXPECT_FALSE(id->address());
}

TEST(VFolderIdTest, ErrorsHaveTheWordsOfThePythonProxy) {
  EXPECT_EQ(error_of("zz"), "cannot convert value to UUID");
  EXPECT_EQ(error_of(""), "cannot convert value to UUID");
  EXPECT_EQ(error_of("user:0fb116ce-a1d1-4349-bd9c-f22dd6247511/zz"),
            "cannot convert value to UUID");
  EXPECT_EQ(error_of("group:x/54a14cc92e0a401d87cf27bd9b8eed07"),
            "Invalid quota scope type: 'group'");
  const std::string pattern =
      "does not match pattern "
      "^[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*:[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*$";
  for (const char* bad : {"zz/yy", "user:/yy", ":x/yy", "a--b:c/yy", "user:../yy", "user:x_/yy"}) {
    EXPECT_EQ(error_of(bad), pattern) << bad;
  }
}

TEST(PathTest, IsNormalAsPurePosixPathMakesIt) {
  const std::vector<std::pair<std::string, std::string>> paths = {
      {"", "."},          {".", "."},
      {"./a//b/", "a/b"}, {"a/../b", "a/../b"},
      {"..", ".."},       {".hidden", ".hidden"},
      {"a/./b", "a/b"}};
  for (const auto& [given, normal] : paths) EXPECT_EQ(normal_path(given).value(), normal) << given;
  EXPECT_EQ(normal_path("/etc").error().message(),
            "expected relative path but the value is absolute");
}

TEST(PathTest, StaysInTheVFolder) {
  EXPECT_TRUE(contained_path(".").value().is_root());
  EXPECT_TRUE(contained_path("a/..").value().is_root());
  EXPECT_EQ(contained_path("a/../b").value().text(), "b");
  for (const char* out : {"..", "../x", "a/../../x", "a/b/../../../x"}) {
    EXPECT_EQ(contained_path(out).error().code(), ErrorCode::invalid_argument) << out;
  }
  EXPECT_FALSE(contained_path(".upload/54a14cc92e0a401d87cf27bd9b8eed07"));
}

}  // namespace
}  // namespace onggi::api::backendai
