#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace onggi::http {

// Follows the framing of a chunked body (RFC 9112 §7.1). The data itself never passes through here,
// so that it can go from the socket to where it belongs: while data_left() is above 0 the next
// bytes are data, taken by took(); otherwise they are framing, taken by framing().
class ChunkDecoder {
 public:
  // Reads framing from the start of `bytes` and returns how much it used. Stops before data and at
  // the body's end. invalid_argument when the body is malformed; the decoder is then useless.
  Result<std::size_t> framing(std::string_view bytes);

  std::uint64_t data_left() const { return data_left_; }
  void took(std::uint64_t bytes);
  bool done() const { return state_ == State::done; }

 private:
  enum class State {
    size,
    extension,
    size_end,
    data,
    data_cr,
    data_lf,
    trailer,
    trailer_end,
    done
  };

  Status step(char c);
  Status step_size(char c);
  Status step_trailer(char c);
  void begin_chunk();

  State state_ = State::size;
  std::uint64_t data_left_ = 0;
  std::uint64_t size_ = 0;
  std::size_t digits_ = 0;
  std::size_t overhead_ = 0;  // bytes of this chunk's extensions or of trailers, read and dropped
  std::size_t line_ = 0;      // bytes in the current trailer line
};

}  // namespace onggi::http
