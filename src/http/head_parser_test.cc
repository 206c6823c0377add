#include "http/head_parser.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace onggi::http {
namespace {

using namespace std::string_view_literals;

Head good(std::string_view text) {
  auto parsed = parse_head(text);
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) {
    ADD_FAILURE() << refusal->detail << " in " << text;
    return {};
  }
  return std::get<Head>(std::move(parsed));
}

int refused(std::string_view text) {
  auto parsed = parse_head(text);
  const auto* refusal = std::get_if<Refusal>(&parsed);
  return refusal == nullptr ? 200 : refusal->status;
}

TEST(HeadParserTest, TakesARequestApart) {
  const Head head = good(
      "PUT /v1/a%2Fb/c?x=1&y=a+b%21&x=2&flag HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n"
      "X-Empty:\r\nx-spaced: \t a b \t\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_EQ(head.request.method, Method::put);
  EXPECT_EQ(head.request.target, "/v1/a%2Fb/c?x=1&y=a+b%21&x=2&flag");
  EXPECT_EQ(head.request.path, "/v1/a%2Fb/c");
  EXPECT_EQ(head.request.query.at("x"), "2");
  EXPECT_EQ(head.request.query.at("y"), "a b!");
  EXPECT_EQ(head.request.query.at("flag"), "");
  EXPECT_EQ(head.request.content_length, 12U);
  EXPECT_EQ(head.request.headers.get("X-SPACED"), "a b");
  EXPECT_EQ(head.request.headers.get("x-empty"), "");
  EXPECT_TRUE(head.keep_alive);
  EXPECT_TRUE(head.expects_continue);
}

TEST(HeadParserTest, UnderstandsAbsoluteTargets) {
  EXPECT_EQ(good("GET http://host:1/a/b?c=d HTTP/1.1\r\nHost: h\r\n\r\n").request.path, "/a/b");
  EXPECT_EQ(good("GET http://host HTTP/1.1\r\nHost: h\r\n\r\n").request.path, "/");
  EXPECT_EQ(good("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").request.path, "*");
}

TEST(HeadParserTest, HasNoLimitOfItsOwnBelowTheConnections) {
  const std::string value(60'000, 'a');
  const Head head = good(
      "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1099511627776\r\nA: " + value + "\r\n\r\n");
  EXPECT_EQ(head.request.content_length, std::uint64_t{1} << 40);
  EXPECT_EQ(head.request.headers.get("A"), value);
}

TEST(HeadParserTest, KnowsWhetherTheConnectionStays) {
  EXPECT_TRUE(good("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n\r\n").keep_alive);
  EXPECT_FALSE(good("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, CLOSE\r\n\r\n").keep_alive);
  EXPECT_FALSE(good("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_FALSE(good("GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n").keep_alive);
  EXPECT_TRUE(good("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
  EXPECT_FALSE(
      good("GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

TEST(HeadParserTest, TakesARepeatedEqualLength) {
  EXPECT_EQ(good("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n")
                .request.content_length,
            5U);
}

struct Bad {
  std::string_view lines;
  int status;
};

TEST(HeadParserTest, RefusesWhatTwoServersCouldReadDifferently) {
  const auto cases = std::to_array<Bad>({
      {"Host: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n", 400},
      {"Host: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400},
      {"Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Host: h\r\nTransfer-Encoding: gzip, chunked\r\n", 501},
      {"Host: h\r\nTransfer-Encoding: xchunked\r\n", 501},
      {"Host: h\r\nTransfer-Encoding:\r\n", 501},
      {"Host: h\r\nContent-Length: 5, 5\r\n", 400},
      {"Host: h\r\nContent-Length: +5\r\n", 400},
      {"Host: h\r\nContent-Length: -5\r\n", 400},
      {"Host: h\r\nContent-Length: 0x5\r\n", 400},
      {"Host: h\r\nContent-Length:\r\n", 400},
      {"Host: h\r\nContent-Length: 99999999999999999999\r\n", 400},
      {"Host: h\r\nContent-Length: 9223372036854775808\r\n", 400},
      {"Host: h\r\nA: b\r\n folded\r\n", 400},
      {"Host: h\r\nA:\r\n\tfolded\r\n", 400},
      {" Host: h\r\n", 400},
      {"Host: h\r\nA: b\r\n \r\n", 400},
      {"Host: h\r\nContent-Length : 5\r\n", 400},
      {"Host: h\r\nno colon\r\n", 400},
      {"Host: h\r\n: nameless\r\n", 400},
      {"Host: h\r\nn\xff: b\r\n", 400},
      {"Host: h\r\nA: b\nB: c\r\n", 400},
      {"Host: h\r\nA: b\rB: c\r\n", 400},
      {"Host: h\r\nHost: i\r\n", 400},
      {"", 400},
      {"Host: h\r\nExpect: miracles\r\n", 417},
  });
  for (const Bad& bad : cases) {
    EXPECT_EQ(refused("PUT / HTTP/1.1\r\n" + std::string(bad.lines) + "\r\n"), bad.status)
        << bad.lines;
  }
  EXPECT_EQ(refused("PUT / HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n"sv), 400);
  EXPECT_EQ(refused("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(HeadParserTest, RefusesRequestLinesThatAreNone) {
  const auto cases = std::to_array<Bad>({
      {"GET /", 400},
      {"GET  / HTTP/1.1", 400},
      {"GET / HTTP/1.1 ", 400},
      {"GET / a HTTP/1.1", 400},
      {"GET / HTTP/2.0", 505},
      {"GET / HTTP/1.10", 505},
      {"GET / http/1.1", 400},
      {"get / HTTP/1.1", 501},
      {"BREW /pot HTTP/1.1", 501},
      {"G(T / HTTP/1.1", 400},
      {"GET /a\tb HTTP/1.1", 400},
      {"GET /a#b HTTP/1.1", 400},
      {"GET /\xc3\xa4 HTTP/1.1", 400},
      {"GET a/b HTTP/1.1", 400},
      {"GET /?a=%4 HTTP/1.1", 400},
      {"CONNECT host:1 HTTP/1.1", 501},
      {" GET / HTTP/1.1", 400},
      {"", 400},
  });
  for (const Bad& bad : cases) {
    EXPECT_EQ(refused(std::string(bad.lines) + "\r\nHost: h\r\n\r\n"), bad.status) << bad.lines;
  }
  EXPECT_EQ(refused("GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n"), 414);
}

TEST(HeadParserTest, RefusesTooManyFieldsAndTooLongOnes) {
  std::string text = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 200; ++i) text += "A: b\r\n";
  EXPECT_EQ(refused(text + "\r\n"), 431);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(70'000, 'a') + "\r\n\r\n"),
            431);
}

TEST(HeadParserTest, RefusesHeadsThatEndElsewhere) {
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: h\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\n\r\n"), 400);
}

TEST(FindHeadTest, FindsTheBlankLineAcrossPieces) {
  const std::string_view text = "GET / HTTP/1.1\r\n\r\nrest";
  EXPECT_EQ(find_head(text, 0), 18U);
  for (std::size_t searched = 0; searched < 18; ++searched) {
    EXPECT_EQ(find_head(text.substr(0, searched), 0), 0U);
    EXPECT_EQ(find_head(text, searched), 18U);
  }
}

TEST(IsHopelessTest, SeesThatSomebodySpeaksAnotherProtocol) {
  EXPECT_TRUE(is_hopeless("\x16\x03\x01"));
  EXPECT_TRUE(is_hopeless("GET\r\n"));
  EXPECT_TRUE(is_hopeless(std::string(40, 'A')));
  EXPECT_FALSE(is_hopeless("OPTI"));
  EXPECT_FALSE(is_hopeless("GET /"));
}

}  // namespace
}  // namespace onggi::http
