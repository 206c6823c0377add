#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace onggi::active {

// What a frame is. 1 to 9 travel between client and daemon; 32 and above only between the daemon
// and a worker, and are refused from clients.
enum class FrameKind : std::uint8_t {
  spec = 1,      // JSON, from the client: what the task is
  payload = 2,   // bytes for the worker, from the client
  command = 3,   // from the client, to the worker `channel`; answered by one result of its sequence
  task = 4,      // JSON, from the daemon: the task's id
  batch = 5,     // a safetensors image
  progress = 6,  // JSON
  log = 7,       // JSON {stream, text}
  error = 8,     // problem JSON, with traceback and sample index
  end = 9,       // JSON
  release = 32,  // to a worker: u64 offset of an arena body that has been sent
  start = 33,    // to a worker: JSON
  ready = 34,    // from a worker: it stands behind its walls and waits
};

// On an end frame with a sequence: this channel's iterable data set is over, the task goes on.
inline constexpr std::uint8_t kFlagExhausted = 0x01;
// Nothing follows.
inline constexpr std::uint8_t kFlagLast = 0x02;
// The body lies in the worker's arena; the 16 bytes that follow the head are u64 offset, u64
// length, and the checksum is that of the arena bytes. Between worker and daemon only.
inline constexpr std::uint8_t kFlagInArena = 0x80;

inline constexpr std::size_t kFrameHeadBytes = 32;
inline constexpr std::uint64_t kFrameBodyBytesMax = 1ULL << 30;
inline constexpr std::uint64_t kFrameJsonBytesMax = 1ULL << 20;

// The 32 bytes before each body: little endian u32 magic "ONGI", u8 kind, u8 flags, u16 channel,
// u32 sequence, u32 zero, u64 body length, u64 xxh3-64 of the body.
struct FrameHead {
  FrameKind kind = FrameKind::end;
  std::uint8_t flags = 0;
  std::uint16_t channel = 0;
  std::uint32_t sequence = 0;
  std::uint64_t body_bytes = 0;
  std::uint64_t checksum = 0;

  bool operator==(const FrameHead&) const = default;
};

using FrameHeadBytes = std::array<std::byte, kFrameHeadBytes>;

FrameHeadBytes encode_frame_head(const FrameHead& head);

// Checks magic, kind, flags, the reserved word and the length limits of the kind.
Result<FrameHead> decode_frame_head(std::span<const std::byte, kFrameHeadBytes> bytes);

struct Frame {
  FrameHead head;
  std::vector<std::byte> body;

  std::string_view text() const;  // the body as characters
};

// A whole frame with its length and checksum filled in.
std::vector<std::byte> encode_frame(FrameHead head, std::span<const std::byte> body);

struct FrameParserLimits {
  std::uint64_t body_bytes_max = kFrameBodyBytesMax;
  bool internal_kinds = false;  // accept 32 and above, and bodies in an arena
};

// Makes frames of a byte stream that arrives in pieces of any size. Checks heads, and checksums of
// bodies that are in the stream. After an error it stays failed. One thread at a time.
class FrameParser {
 public:
  using FrameSink = std::function<Status(Frame&& frame)>;

  explicit FrameParser(FrameParserLimits limits = {}) : limits_(limits) {}

  // Calls `sink` for each frame that `bytes` completes; its error ends the parsing.
  Status feed(std::span<const std::byte> bytes, const FrameSink& sink);
  // True when the bytes so far are whole frames.
  bool at_boundary() const { return head_filled_ == 0 && !in_body_; }

 private:
  Status take_head(const FrameSink& sink);
  Status deliver(const FrameSink& sink);

  const FrameParserLimits limits_;
  FrameHeadBytes head_bytes_{};
  std::size_t head_filled_ = 0;
  bool in_body_ = false;
  bool failed_ = false;
  std::uint64_t body_wanted_ = 0;
  Frame frame_;
};

}  // namespace onggi::active
