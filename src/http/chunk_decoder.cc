#include "http/chunk_decoder.h"

#include "base/check.h"

namespace onggi::http {
namespace {

constexpr std::size_t kSizeDigitsMax = 15;
constexpr std::size_t kOverheadBytesMax = 16 << 10;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

auto malformed() {
  return fail(ErrorCode::invalid_argument, "the chunked body is malformed");
}

}  // namespace

Result<std::size_t> ChunkDecoder::framing(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && data_left_ == 0 && !done()) {
    RETURN_IF_ERROR(step(bytes[used]));
    ++used;
  }
  return used;
}

void ChunkDecoder::took(std::uint64_t bytes) {
  CHECK(bytes <= data_left_);
  data_left_ -= bytes;
  if (data_left_ == 0) state_ = State::data_cr;
}

Status ChunkDecoder::step(char c) {
  switch (state_) {
    case State::size:
      return step_size(c);
    case State::extension:
      if (++overhead_ > kOverheadBytesMax) return malformed();
      if (c == '\r') {
        state_ = State::size_end;
      } else if (static_cast<unsigned char>(c) < 0x20 && c != '\t') {
        return malformed();
      }
      return {};
    case State::size_end:
      if (c != '\n') return malformed();
      begin_chunk();
      return {};
    case State::data_cr:
      if (c != '\r') return malformed();
      state_ = State::data_lf;
      return {};
    case State::data_lf:
      if (c != '\n') return malformed();
      state_ = State::size;
      return {};
    case State::trailer:
    case State::trailer_end:
      return step_trailer(c);
    case State::data:
    case State::done:
      break;
  }
  return malformed();
}

Status ChunkDecoder::step_size(char c) {
  if (const int digit = hex_digit(c); digit >= 0) {
    if (++digits_ > kSizeDigitsMax) return malformed();
    size_ = size_ * 16 + static_cast<std::uint64_t>(digit);
    return {};
  }
  if (digits_ == 0) return malformed();
  if (c == '\r') {
    state_ = State::size_end;
  } else if (c == ';') {
    state_ = State::extension;
  } else {
    return malformed();
  }
  return {};
}

Status ChunkDecoder::step_trailer(char c) {
  if (++overhead_ > kOverheadBytesMax) return malformed();
  if (state_ == State::trailer_end) {
    if (c != '\n') return malformed();
    state_ = line_ == 0 ? State::done : State::trailer;
    line_ = 0;
  } else if (c == '\r') {
    state_ = State::trailer_end;
  } else if (static_cast<unsigned char>(c) < 0x20 && c != '\t') {
    return malformed();
  } else {
    ++line_;
  }
  return {};
}

void ChunkDecoder::begin_chunk() {
  data_left_ = size_;
  state_ = size_ == 0 ? State::trailer : State::data;
  size_ = 0;
  digits_ = 0;
  overhead_ = 0;
}

}  // namespace onggi::http
