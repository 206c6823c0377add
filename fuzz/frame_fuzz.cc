// Frames and specs as clients send them, and the broker's messages as a worker gone astray might.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "active/frame.h"
#include "active/sandbox/protocol.h"
#include "active/task_spec.h"

namespace {

using namespace onggi::active;  // NOLINT(google-build-using-namespace): a program of its own

// However the bytes are cut, the same frames come out, and what comes out can be encoded again.
std::size_t parse(std::span<const std::byte> bytes, std::size_t step, bool internal) {
  FrameParser parser({.body_bytes_max = 1 << 20, .internal_kinds = internal});
  std::size_t count = 0;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(step, bytes.size()));
    const auto status = parser.feed(piece, [&](Frame&& frame) -> onggi::Status {
      ++count;
      const auto again = decode_frame_head(encode_frame_head(frame.head));
      if (!again || *again != frame.head) std::abort();
      if (frame.head.kind == FrameKind::spec) {
        static_cast<void>(parse_task_spec(frame.text(), {}));
      }
      return {};
    });
    if (!status) break;
    bytes = bytes.subspan(piece.size());
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (parse(bytes, size + 1, false) != parse(bytes, 7, false)) std::abort();
  parse(bytes, 1024, true);
  // Checksums keep a fuzzer from the JSON, so it gets there by itself too.
  static_cast<void>(parse_task_spec(text, {}));
  static_cast<void>(decode_worker_order(text));
  static_cast<void>(decode_start_profile(text));
  static_cast<void>(decode_worker_exit(text));
  static_cast<void>(decode_fork_request(text));
  static_cast<void>(decode_child_exit(text));
  return 0;
}
