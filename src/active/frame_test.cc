#include "active/frame.h"

#include <cstring>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/encoding.h"

namespace onggi::active {
namespace {

std::vector<Frame> parse(std::span<const std::byte> bytes, std::size_t step, Status& status,
                         FrameParserLimits limits = {}) {
  FrameParser parser(limits);
  std::vector<Frame> frames;
  const auto sink = [&](Frame&& frame) -> Status {
    frames.push_back(std::move(frame));
    return {};
  };
  status = {};
  while (!bytes.empty() && status) {
    const std::size_t count = std::min(step, bytes.size());
    status = parser.feed(bytes.first(count), sink);
    bytes = bytes.subspan(count);
  }
  return frames;
}

std::vector<std::byte> two_frames() {
  auto bytes = encode_frame({.kind = FrameKind::spec}, as_bytes("{}"));
  const auto second =
      encode_frame({.kind = FrameKind::command, .channel = 7, .sequence = 9}, as_bytes("hello"));
  bytes.insert(bytes.end(), second.begin(), second.end());
  return bytes;
}

TEST(FrameHeadTest, HasTheDocumentedLayout) {
  const FrameHeadBytes bytes = encode_frame_head({.kind = FrameKind::batch,
                                                  .flags = kFlagLast,
                                                  .channel = 0x0102,
                                                  .sequence = 0x03040506,
                                                  .body_bytes = 0x0708,
                                                  .checksum = 0x1122334455667788});
  EXPECT_EQ(hex_encode(bytes),
            "4f4e4749050202010605040300000000080700000000000088776655443322"
            "11");
}

TEST(FrameHeadTest, ComesBackAsItWas) {
  const FrameHead head{.kind = FrameKind::error,
                       .flags = kFlagLast,
                       .channel = 3,
                       .sequence = 4,
                       .body_bytes = 5,
                       .checksum = 6};
  const auto decoded = decode_frame_head(encode_frame_head(head));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, head);
}

TEST(FrameHeadTest, RefusesWhatIsNotAHead) {
  const FrameHeadBytes good = encode_frame_head({.kind = FrameKind::batch});
  const std::vector<std::pair<std::size_t, int>> changes = {
      {0, 0x4e}, {3, 0},    {4, 0},  {4, 10},    {4, 31}, {4, 35},   {4, 255},
      {5, 0x04}, {5, 0x40}, {12, 1}, {15, 0x80}, {21, 1}, {23, 0x80}};
  for (const auto& [offset, value] : changes) {
    FrameHeadBytes bad = good;
    bad.at(offset) = static_cast<std::byte>(value);
    EXPECT_FALSE(decode_frame_head(bad)) << "byte " << offset << " = " << value;
  }
}

TEST(FrameHeadTest, LimitsJsonToAMebibyte) {
  EXPECT_TRUE(decode_frame_head(
      encode_frame_head({.kind = FrameKind::spec, .body_bytes = kFrameJsonBytesMax})));
  EXPECT_FALSE(decode_frame_head(
      encode_frame_head({.kind = FrameKind::spec, .body_bytes = kFrameJsonBytesMax + 1})));
  EXPECT_TRUE(decode_frame_head(
      encode_frame_head({.kind = FrameKind::batch, .body_bytes = kFrameBodyBytesMax})));
  EXPECT_FALSE(decode_frame_head(
      encode_frame_head({.kind = FrameKind::batch, .body_bytes = kFrameBodyBytesMax + 1})));
}

TEST(FrameParserTest, TakesPiecesOfAnySize) {
  const auto bytes = two_frames();
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    Status status;
    const auto frames = parse(bytes, step, status);
    ASSERT_TRUE(status) << step;
    ASSERT_EQ(frames.size(), 2U) << step;
    EXPECT_EQ(frames[0].text(), "{}");
    EXPECT_EQ(frames[1].text(), "hello");
    EXPECT_EQ(frames[1].head.channel, 7);
  }
}

TEST(FrameParserTest, KnowsWhenAFrameIsIncomplete) {
  const auto bytes = two_frames();
  FrameParser parser;
  const auto sink = [](Frame&&) -> Status { return {}; };
  ASSERT_TRUE(parser.feed(std::span(bytes).first(bytes.size() - 1), sink));
  EXPECT_FALSE(parser.at_boundary());
  ASSERT_TRUE(parser.feed(std::span(bytes).last(1), sink));
  EXPECT_TRUE(parser.at_boundary());
}

TEST(FrameParserTest, RefusesAChangedBody) {
  auto bytes = two_frames();
  bytes.back() ^= std::byte{1};
  Status status;
  EXPECT_EQ(parse(bytes, 1000, status).size(), 1U);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::corruption);
}

TEST(FrameParserTest, StaysFailed) {
  FrameParser parser;
  const auto sink = [](Frame&&) -> Status { return {}; };
  EXPECT_FALSE(parser.feed(as_bytes(std::string(32, 'x')), sink));
  EXPECT_FALSE(parser.feed(two_frames(), sink));
}

TEST(FrameParserTest, RefusesInternalKindsFromTheWire) {
  const auto release = encode_frame({.kind = FrameKind::release}, as_bytes("12345678"));
  Status status;
  parse(release, 1000, status);
  EXPECT_FALSE(status);
  const auto arena =
      encode_frame({.kind = FrameKind::batch, .flags = kFlagInArena}, as_bytes("1234567812345678"));
  parse(arena, 1000, status);
  EXPECT_FALSE(status);
  parse(arena, 1000, status, {.internal_kinds = true});
  EXPECT_TRUE(status);
}

TEST(FrameParserTest, RefusesBodiesOverItsLimit) {
  const auto bytes = encode_frame({.kind = FrameKind::payload}, as_bytes("12345"));
  Status status;
  parse(bytes, 1000, status, {.body_bytes_max = 4});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::too_large);
}

TEST(FrameParserTest, SurvivesNoise) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto good = two_frames();
  for (int round = 0; round < 2000; ++round) {
    auto bytes = good;
    for (int change = 0; change < 3; ++change) {
      bytes.at(random() % bytes.size()) = static_cast<std::byte>(random());
    }
    Status status;
    const auto frames = parse(bytes, 1 + (random() % 40), status);
    EXPECT_LE(frames.size(), 2U);
  }
}

}  // namespace
}  // namespace onggi::active
