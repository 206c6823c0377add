#include "http/chunk_decoder.h"

#include <algorithm>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace onggi::http {
namespace {

// The decoded body when `text`, fed in pieces of `step` bytes, is one; what follows it in `rest`.
std::optional<std::string> decode(std::string_view text, std::size_t step, std::string& rest) {
  ChunkDecoder decoder;
  std::string body;
  std::string held;
  for (std::size_t at = 0; at < text.size(); at += step) {
    held += text.substr(at, step);
    while (!held.empty() && !decoder.done()) {
      if (decoder.data_left() > 0) {
        const auto part = std::min<std::size_t>(decoder.data_left(), held.size());
        body += held.substr(0, part);
        held.erase(0, part);
        decoder.took(part);
        continue;
      }
      const auto used = decoder.framing(held);
      if (!used) return std::nullopt;
      held.erase(0, *used);
    }
  }
  rest = held;
  if (!decoder.done()) return std::nullopt;
  return body;
}

TEST(ChunkDecoderTest, DecodesWhateverThePiecesAre) {
  const std::string_view text =
      "5\r\nhello\r\n1;name=\"value\"\r\n,\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nGET /";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    std::string rest;
    EXPECT_EQ(decode(text, step, rest), "hello,0123456789") << step;
    EXPECT_EQ(rest, "GET /") << step;
  }
}

TEST(ChunkDecoderTest, RefusesWhatIsMalformed) {
  for (const std::string_view text : {"\r\n", "g\r\n", "-1\r\n", "5\nhello", "5\r\nhelloX\r\n",
                                      "5\r\nhello\rX", " 5\r\n", "1000000000000000\r\n", "0x5\r\n",
                                      "5\r\nhello\r\n\r\n", "0\r\nA: b\nC\r\n\r\n", "5 \r\n"}) {
    std::string rest;
    EXPECT_EQ(decode(text, 1, rest), std::nullopt) << text;
  }
}

TEST(ChunkDecoderTest, BoundsWhatItDrops) {
  std::string rest;
  EXPECT_EQ(decode("1;" + std::string(20'000, 'a') + "\r\nx\r\n0\r\n\r\n", 4096, rest),
            std::nullopt);
  EXPECT_EQ(decode("0\r\nA: " + std::string(20'000, 'a') + "\r\n\r\n", 4096, rest), std::nullopt);
}

}  // namespace
}  // namespace onggi::http
