#include "active/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/checksum.h"

namespace onggi::active {

namespace {

constexpr std::uint32_t kMagic = 0x49474e4f;  // "ONGI" when read byte by byte
constexpr std::uint64_t kArenaBodyBytes = 16;
// A body grows by this at a time, so that a head alone never makes us allocate its claim.
constexpr std::uint64_t kBodyStep = 4ULL << 20;
static_assert(std::endian::native == std::endian::little);

template <typename T>
void store(FrameHeadBytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

template <typename T>
T load(std::span<const std::byte, kFrameHeadBytes> bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

bool is_known(std::uint8_t kind) {
  return (kind >= 1 && kind <= 9) || (kind >= 32 && kind <= 34);
}

bool is_json(FrameKind kind) {
  switch (kind) {
    case FrameKind::spec:
    case FrameKind::task:
    case FrameKind::progress:
    case FrameKind::log:
    case FrameKind::error:
    case FrameKind::end:
    case FrameKind::start:
      return true;
    default:
      return false;
  }
}

Status check_length(const FrameHead& head) {
  const bool in_arena = (head.flags & kFlagInArena) != 0;
  if (in_arena && head.body_bytes != kArenaBodyBytes) {
    return fail(ErrorCode::invalid_argument, "frame: a body in the arena takes 16 bytes");
  }
  const std::uint64_t limit = is_json(head.kind) ? kFrameJsonBytesMax : kFrameBodyBytesMax;
  if (head.body_bytes > limit) {
    return fail(
        ErrorCode::too_large,
        fmt::format("frame: a body of {} bytes; at most {} are allowed", head.body_bytes, limit));
  }
  return {};
}

}  // namespace

FrameHeadBytes encode_frame_head(const FrameHead& head) {
  FrameHeadBytes bytes{};
  store(bytes, 0, kMagic);
  store(bytes, 4, static_cast<std::uint8_t>(head.kind));
  store(bytes, 5, head.flags);
  store(bytes, 6, head.channel);
  store(bytes, 8, head.sequence);
  store(bytes, 16, head.body_bytes);
  store(bytes, 24, head.checksum);
  return bytes;
}

Result<FrameHead> decode_frame_head(std::span<const std::byte, kFrameHeadBytes> bytes) {
  if (load<std::uint32_t>(bytes, 0) != kMagic) {
    return fail(ErrorCode::invalid_argument, "frame: does not begin with ONGI");
  }
  const auto kind = load<std::uint8_t>(bytes, 4);
  if (!is_known(kind)) {
    return fail(ErrorCode::invalid_argument, fmt::format("frame: unknown kind {}", kind));
  }
  FrameHead head{.kind = static_cast<FrameKind>(kind),
                 .flags = load<std::uint8_t>(bytes, 5),
                 .channel = load<std::uint16_t>(bytes, 6),
                 .sequence = load<std::uint32_t>(bytes, 8),
                 .body_bytes = load<std::uint64_t>(bytes, 16),
                 .checksum = load<std::uint64_t>(bytes, 24)};
  if ((head.flags & ~(kFlagExhausted | kFlagLast | kFlagInArena)) != 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("frame: unknown flags {:#x}", head.flags));
  }
  if (load<std::uint32_t>(bytes, 12) != 0) {
    return fail(ErrorCode::invalid_argument, "frame: the reserved word is not zero");
  }
  RETURN_IF_ERROR(check_length(head));
  return head;
}

std::string_view Frame::text() const {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

std::vector<std::byte> encode_frame(FrameHead head, std::span<const std::byte> body) {
  head.body_bytes = body.size();
  head.checksum = xxh3(body);
  const FrameHeadBytes bytes = encode_frame_head(head);
  std::vector<std::byte> frame(bytes.size() + body.size());
  std::memcpy(frame.data(), bytes.data(), bytes.size());
  if (!body.empty()) std::memcpy(frame.data() + bytes.size(), body.data(), body.size());
  return frame;
}

Status FrameParser::feed(std::span<const std::byte> bytes, const FrameSink& sink) {
  if (failed_) return fail(ErrorCode::invalid_argument, "frame: an earlier one was malformed");
  failed_ = true;  // until this call has ended well
  while (!bytes.empty()) {
    if (!in_body_) {
      const std::size_t count = std::min(bytes.size(), kFrameHeadBytes - head_filled_);
      std::copy_n(bytes.begin(), count,
                  head_bytes_.begin() + static_cast<std::ptrdiff_t>(head_filled_));
      head_filled_ += count;
      bytes = bytes.subspan(count);
      if (head_filled_ == kFrameHeadBytes) RETURN_IF_ERROR(take_head(sink));
      continue;
    }
    const std::uint64_t missing = body_wanted_ - frame_.body.size();
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), missing);
    frame_.body.insert(frame_.body.end(), bytes.begin(),
                       bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (frame_.body.size() == body_wanted_) RETURN_IF_ERROR(deliver(sink));
  }
  failed_ = false;
  return {};
}

Status FrameParser::take_head(const FrameSink& sink) {
  ASSIGN_OR_RETURN(frame_.head, decode_frame_head(head_bytes_));
  head_filled_ = 0;
  const bool internal =
      frame_.head.kind >= FrameKind::release || (frame_.head.flags & kFlagInArena) != 0;
  if (internal && !limits_.internal_kinds) {
    return fail(ErrorCode::invalid_argument, "frame: its kind or flags are not for the wire");
  }
  if (frame_.head.body_bytes > limits_.body_bytes_max) {
    return fail(ErrorCode::too_large,
                fmt::format("frame: a body of {} bytes; at most {} are allowed",
                            frame_.head.body_bytes, limits_.body_bytes_max));
  }
  body_wanted_ = frame_.head.body_bytes;
  frame_.body.clear();
  if (body_wanted_ == 0) return deliver(sink);
  frame_.body.reserve(std::min(body_wanted_, kBodyStep));
  in_body_ = true;
  return {};
}

Status FrameParser::deliver(const FrameSink& sink) {
  in_body_ = false;
  const bool in_arena = (frame_.head.flags & kFlagInArena) != 0;
  if (!in_arena && xxh3(frame_.body) != frame_.head.checksum) {
    return fail(ErrorCode::corruption, "frame: the body does not have its checksum");
  }
  Frame frame = std::move(frame_);
  frame_ = {};
  return sink(std::move(frame));
}

}  // namespace onggi::active
