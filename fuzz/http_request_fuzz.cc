// Feeds a byte stream to what reads requests: heads, routes, and bodies of either framing, one
// request after the other as on a connection. Besides crashes it looks for two readings of the same
// bytes: fed whole and fed byte by byte they must come apart at the same places.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "base/check.h"
#include "http/chunk_decoder.h"
#include "http/head_parser.h"
#include "http/router.h"

namespace {

using onggi::http::ChunkDecoder;
using onggi::http::Head;
using onggi::http::Method;
using onggi::http::Refusal;
using onggi::http::Request;
using onggi::http::Router;

Router make_router() {
  Router router;
  const auto nothing = [](Request&) { return onggi::http::Response{}; };
  router.handle(Method::get, "/v1/vfolders", nothing);
  router.handle(Method::get, "/v1/vfolders/{vfolder}/files/{path*}", nothing);
  router.handle(Method::put, "/v1/vfolders/{vfolder}/files/{path*}", nothing);
  return router;
}

// The size of the chunked body at the start of `bytes` when fed in pieces of `step`; npos when it
// is malformed or does not end.
std::size_t chunked_size(std::string_view bytes, std::size_t step) {
  ChunkDecoder decoder;
  std::size_t at = 0;
  while (!decoder.done() && at < bytes.size()) {
    const std::string_view piece = bytes.substr(at, step);
    if (decoder.data_left() > 0) {
      const auto part = std::min<std::uint64_t>(decoder.data_left(), piece.size());
      decoder.took(part);
      at += static_cast<std::size_t>(part);
      continue;
    }
    const auto used = decoder.framing(piece);
    if (!used) return std::string_view::npos;
    CHECK(*used > 0 && *used <= piece.size());
    at += *used;
  }
  return decoder.done() ? at : std::string_view::npos;
}

// The size of the body at the start of `bytes`; npos when the connection would end here.
std::size_t body_size(const Request& request, std::string_view bytes) {
  if (!request.chunked) {
    const std::uint64_t length = request.content_length.value_or(0);
    return length <= bytes.size() ? static_cast<std::size_t>(length) : std::string_view::npos;
  }
  const std::size_t size = chunked_size(bytes, bytes.size());
  CHECK(size == chunked_size(bytes, 1));
  return size;
}

void read_connection(const Router& router, std::string_view bytes) {
  while (!bytes.empty()) {
    onggi::http::is_hopeless(bytes);
    const std::size_t size = onggi::http::find_head(bytes, 0);
    if (size == 0) return;
    auto parsed = onggi::http::parse_head(bytes.substr(0, size));
    if (std::holds_alternative<Refusal>(parsed)) {
      CHECK(std::get<Refusal>(parsed).status >= 400);
      return;
    }
    auto& request = std::get<Head>(parsed).request;
    CHECK(!(request.chunked && request.content_length));
    const auto route = router.match(request);
    CHECK(!route || *route != nullptr);
    bytes.remove_prefix(size);
    const std::size_t body = body_size(request, bytes);
    if (body == std::string_view::npos) return;
    bytes.remove_prefix(body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Router kRouter = make_router();
  const std::vector<char> copy(data, data + size);  // so that reading past the end is seen
  read_connection(kRouter, {copy.data(), copy.size()});
  return 0;
}
