#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "http/chunk_decoder.h"
#include "http/input_buffer.h"
#include "http/message.h"
#include "http/transport.h"

namespace onggi::http {

// Reads one request's body from what was buffered with its head, then from the socket, and never a
// byte beyond. One thread at a time.
class BodyReader {
 public:
  explicit BodyReader(const Request& request);

  bool done() const { return chunks_ ? chunks_->done() : left_ == 0; }
  bool malformed() const { return malformed_; }

  // Moves some bytes of the body to `out`, which has room for 1 at least. ready with 0 bytes means
  // that the body is done; ended with malformed() set means that it makes no sense.
  IoStep read(Transport& transport, InputBuffer& buffer, std::span<std::byte> out);

  // Drops what is left of the body if all of it is in `buffer`; false otherwise.
  bool skip(InputBuffer& buffer);

 private:
  // Consumes framing and copies data from `buffer`.
  std::size_t take(InputBuffer& buffer, std::span<std::byte> out);
  std::uint64_t data_left() const { return chunks_ ? chunks_->data_left() : left_; }
  void took(std::size_t bytes);

  std::optional<ChunkDecoder> chunks_;
  std::uint64_t left_ = 0;
  bool malformed_ = false;
};

}  // namespace onggi::http
