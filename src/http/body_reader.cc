#include "http/body_reader.h"

#include <algorithm>
#include <array>

namespace onggi::http {
namespace {

// Chunks smaller than this are read many at a time into the buffer and copied from there.
constexpr std::uint64_t kDirectBytesMin = 64 << 10;
constexpr std::size_t kBufferedReadBytes = 64 << 10;

}  // namespace

BodyReader::BodyReader(const Request& request) : left_(request.content_length.value_or(0)) {
  if (request.chunked) chunks_.emplace();
}

void BodyReader::took(std::size_t bytes) {
  if (chunks_) {
    chunks_->took(bytes);
  } else {
    left_ -= bytes;
  }
}

std::size_t BodyReader::take(InputBuffer& buffer, std::span<std::byte> out) {
  std::size_t taken = 0;
  while (!buffer.empty() && !done()) {
    if (chunks_ && chunks_->data_left() == 0) {
      // Framing is read even when `out` is full: the body's end may already be here.
      const auto used = chunks_->framing(buffer.view());
      malformed_ = !used;
      if (malformed_) break;
      buffer.consume(*used);
      continue;
    }
    const std::size_t held = std::min(buffer.size(), out.size() - taken);
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(data_left(), held));
    if (part == 0) break;
    const auto bytes = std::as_bytes(std::span(buffer.view())).first(part);
    std::ranges::copy(bytes, out.begin() + static_cast<std::ptrdiff_t>(taken));
    buffer.consume(part);
    took(part);
    taken += part;
  }
  return taken;
}

IoStep BodyReader::read(Transport& transport, InputBuffer& buffer, std::span<std::byte> out) {
  while (!done() && !malformed_) {
    const std::size_t taken = take(buffer, out);
    if (taken > 0 || done()) return {.state = IoState::ready, .bytes = taken};
    if (malformed_) break;
    const bool direct = !chunks_ || data_left() >= kDirectBytesMin;
    if (direct) {
      const IoStep step = transport.read(
          out.first(static_cast<std::size_t>(std::min<std::uint64_t>(data_left(), out.size()))));
      if (step.state == IoState::ready) took(step.bytes);
      return step;
    }
    const IoStep step = transport.read(buffer.space(kBufferedReadBytes));
    if (step.state != IoState::ready) return step;
    buffer.add(step.bytes);
  }
  return {.state = malformed_ ? IoState::ended : IoState::ready};
}

bool BodyReader::skip(InputBuffer& buffer) {
  std::array<std::byte, 4096> dropped;  // NOLINT(*-member-init): only written
  while (!done() && !buffer.empty() && !malformed_) take(buffer, dropped);
  return done();
}

}  // namespace onggi::http
