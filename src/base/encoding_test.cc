#include "base/encoding.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace onggi {
namespace {

using std::string_literals::operator""s;

TEST(Base64Test, EncodesTheVectorsOfRfc4648) {
  const std::vector<std::pair<std::string, std::string>> vectors = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
  };
  for (const auto& [plain, encoded] : vectors) {
    EXPECT_EQ(base64_encode(as_bytes(plain)), encoded);
    EXPECT_EQ(base64_decode(encoded).value(), plain);
  }
  EXPECT_EQ(base64url_encode(as_bytes("\xfb\xff\xfe")), "-__-");
}

TEST(Base64Test, RefusesWhatIsNotCanonical) {
  for (const std::string_view bad :
       {"Zg", "Zg=", "Zh==", "Z===", "Zm9v\n", "Zm-v", "=AAA", "Zm9=Zm9v"}) {
    EXPECT_FALSE(base64_decode(bad)) << bad;
  }
}

TEST(AsciiLowerTest, ChangesLettersOfAsciiAlone) {
  EXPECT_EQ(ascii_lower("AZaz09[@`{\xC3\x89"s), "azaz09[@`{\xC3\x89");
}

TEST(HexTest, RoundTripsAndRefusesOtherCharacters) {
  EXPECT_EQ(hex_encode(as_bytes("\x00\xff\x10"s)), "00ff10");
  EXPECT_EQ(hex_decode("00FF10").value(), "\x00\xff\x10"s);
  EXPECT_FALSE(hex_decode("0"));
  EXPECT_FALSE(hex_decode("0g"));
}

TEST(PercentTest, DecodesOnceAndNamesWhatIsMalformed) {
  EXPECT_EQ(percent_decode("a%2Fb+c%252F").value(), "a/b+c%2F");
  EXPECT_EQ(percent_decode("a+b", true).value(), "a b");
  EXPECT_EQ(percent_decode("%41").value(), "A");
  for (const std::string_view bad : {"%", "%4", "%4g", "a%"})
    EXPECT_FALSE(percent_decode(bad)) << bad;
  EXPECT_EQ(percent_encode("a b/ü"), "a%20b%2F%C3%BC");
  EXPECT_EQ(percent_encode("a b/c", true), "a%20b/c");
}

TEST(Utf8Test, AcceptsWellFormedTextOnly) {
  for (const std::string_view good :
       {"", "plain", "가나다", "é", "\xf0\x9f\x8f\xba", "\xef\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  const std::vector<std::string> bad = {
      "\x80",              // a continuation alone
      "\xc0\xaf",          // overlong '/'
      "\xe0\x80\xaf",      // overlong '/' in three bytes
      "\xed\xa0\x80",      // a surrogate
      "\xf4\x90\x80\x80",  // above U+10FFFF
      "\xf5\x80\x80\x80",
      "\xe2\x82",
      "a\xff",
  };
  for (const std::string& text : bad) EXPECT_FALSE(is_utf8(text)) << hex_encode(as_bytes(text));
}

}  // namespace
}  // namespace onggi
