#include "backend/rel_path.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace onggi::backend {
namespace {

using std::string_literals::operator""s;

TEST(RelPathTest, AcceptsNamesPeopleUse) {
  const std::string longest(255, 'n');
  for (const std::string& text :
       {"a"s, "a/b c/가.txt"s, ".hidden"s, "..."s, "a/.upload/x"s, longest}) {
    const auto path = RelPath::parse(text);
    ASSERT_TRUE(path) << text;
    EXPECT_EQ(path->text(), text);
  }
  EXPECT_TRUE(RelPath::parse("").value().is_root());
  EXPECT_EQ(RelPath::parse("dir/").value().text(), "dir");
}

TEST(RelPathTest, RefusesEveryTrickAndSaysWhich) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"..", "'..'"},
      {"a/../b", "'..'"},
      {"./a", "'.'"},
      {"a/.", "'.'"},
      {"/etc/passwd", "absolute"},
      {"/", "absolute"},
      {"a//b", "empty"},
      {"a//", "empty"},
      {"a\0b"s, "NUL"},
      {"a\nb", "control"},
      {"a\x7f", "control"},
      {"a\xff", "UTF-8"},
      {"a\xc0\xae", "UTF-8"},
      {std::string(256, 'n'), "255"},
      {".upload", "reserved"},
      {".upload/x", "reserved"},
      {std::string(5000, 'n'), "4096"},
  };
  for (const auto& [text, word] : cases) {
    const auto path = RelPath::parse(text);
    ASSERT_FALSE(path) << text;
    EXPECT_EQ(path.error().code(), ErrorCode::invalid_argument);
    EXPECT_NE(path.error().message().find(word), std::string::npos) << path.error().message();
  }
}

TEST(RelPathTest, SplitsAndJoins) {
  const RelPath path = RelPath::parse("a/b/c").value();
  EXPECT_EQ(path.parent().text(), "a/b");
  EXPECT_EQ(path.name(), "c");
  EXPECT_TRUE(RelPath::parse("a").value().parent().is_root());
  EXPECT_EQ(RelPath().join("a").join("b").text(), "a/b");
}

}  // namespace
}  // namespace onggi::backend
