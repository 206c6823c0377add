#include "http/head_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/verb.hpp>

#include "base/encoding.h"

namespace onggi::http {
namespace {

namespace beast = boost::beast::http;
using beast::field;
using beast::verb;

constexpr std::size_t kHeadBytesMax = 64 << 10;  // Beast throws at a field longer than this
constexpr std::ptrdiff_t kLinesMax = 130;
constexpr std::size_t kTargetBytesMax = 16 << 10;

using Refused = std::optional<Refusal>;

Refusal malformed(std::string detail) {
  return {.detail = std::move(detail)};
}

std::optional<Method> parse_method(verb method) {
  static constexpr auto kMethods =
      std::to_array<std::pair<verb, Method>>({{verb::get, Method::get},
                                              {verb::head, Method::head},
                                              {verb::put, Method::put},
                                              {verb::post, Method::post},
                                              {verb::patch, Method::patch},
                                              {verb::delete_, Method::del},
                                              {verb::options, Method::options}});
  for (const auto& [theirs, ours] : kMethods) {
    if (theirs == method) return ours;
  }
  return std::nullopt;
}

bool parse_query(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const std::size_t end = text.find('&');
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!name || !value) return false;
    query[*std::move(name)] = *std::move(value);
  }
  return true;
}

Refused parse_target(std::string_view target, Request& request) {
  if (target.size() > kTargetBytesMax) {
    return Refusal{.status = 414, .code = "too_large", .detail = "the request target is too long"};
  }
  // Beast lets bytes above ASCII and fragments pass.
  if (!std::ranges::all_of(target, [](char c) { return c > 0x20 && c < 0x7f && c != '#'; })) {
    return malformed("the request target has forbidden characters");
  }
  request.target = target;
  if (target.starts_with("http://") || target.starts_with("https://")) {
    target.remove_prefix(target.find("//") + 2);
    const std::size_t path = target.find_first_of("/?");
    target.remove_prefix(std::min(path, target.size()));
  }
  const std::size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  request.path = path.empty() ? "/" : path;
  if (request.path.front() != '/' && request.path != "*") {
    return malformed("the request target is not a path");
  }
  if (question != std::string_view::npos &&
      !parse_query(target.substr(question + 1), request.query)) {
    return malformed("the query's percent-encoding is broken");
  }
  return std::nullopt;
}

Refused take_request_line(const beast::request_header<>& line, Head& head) {
  const auto method = parse_method(line.method());
  if (!method) {
    return Refusal{.status = 501,
                   .code = "unsupported",
                   .reason = "unknown_method",
                   .detail = "no such method here"};
  }
  head.request.method = *method;
  head.http_1_0 = line.version() == 10;
  return parse_target(line.target(), head.request);
}

// What the framing fields said so far: a repeated one must not change the story.
struct Framing {
  std::size_t hosts = 0;
  std::size_t codings = 0;
  bool close = false;
  bool keep_alive = false;
};

Refused take_content_length(std::string_view value, Request& request) {
  std::uint64_t length = 0;  // Beast takes a list of equal numbers, too.
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  if (error != std::errc() || end != value.data() + value.size() ||
      length > (std::uint64_t{1} << 62)) {
    return malformed("Content-Length is not a number");
  }
  if (request.content_length && *request.content_length != length) {
    return malformed("Content-Length came twice and differs");
  }
  request.content_length = length;
  return std::nullopt;
}

Refused take_field(field name, std::string_view value, Head& head, Framing& framing) {
  switch (name) {
    case field::content_length:
      return take_content_length(value, head.request);
    case field::transfer_encoding:
      ++framing.codings;
      head.request.chunked = equal_names(value, "chunked");
      if (head.request.chunked) return std::nullopt;
      return Refusal{.status = 501,
                     .code = "unsupported",
                     .detail = "the only transfer coding taken here is chunked"};
    case field::connection:
      // Not Beast's keep_alive(), which listens to Proxy-Connection as well.
      for (const std::string_view option : beast::token_list(value)) {
        framing.close |= equal_names(option, "close");
        framing.keep_alive |= equal_names(option, "keep-alive");
      }
      return std::nullopt;
    case field::host:
      ++framing.hosts;
      return std::nullopt;
    case field::expect:
      head.expects_continue = equal_names(value, "100-continue");
      if (head.expects_continue) return std::nullopt;
      return Refusal{.status = 417, .code = "unsupported", .detail = "unknown expectation"};
    default:
      return std::nullopt;
  }
}

Refused check_framing(const Head& head, const Framing& framing) {
  if (framing.hosts > 1 || (framing.hosts == 0 && !head.http_1_0)) {
    return malformed("a request has exactly one Host");
  }
  if (framing.codings > 1) return malformed("Transfer-Encoding came twice");
  if (framing.codings > 0 && head.request.content_length) {
    return malformed("a request has Content-Length or Transfer-Encoding, not both");
  }
  if (framing.codings > 0 && head.http_1_0) return malformed("HTTP/1.0 has no Transfer-Encoding");
  return std::nullopt;
}

// What must be seen before Beast reads: it would allocate each field of a hostile head, and join a
// folded field to one line where another server may see two fields.
Refused check_lines(std::string_view head) {
  if (head.size() > kHeadBytesMax || std::ranges::count(head, '\n') > kLinesMax) {
    return Refusal{.status = 431,
                   .code = "too_large",
                   .reason = "header_too_large",
                   .detail = "the request's head is too large"};
  }
  if (head.find("\r\n ") != std::string_view::npos ||
      head.find("\r\n\t") != std::string_view::npos) {
    return malformed("a header field is folded");
  }
  return std::nullopt;
}

// Beast has one error for a version that this server does not speak and for what is no version.
bool is_other_version(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const std::string_view version = line.substr(line.rfind(' ') + 1);
  return version.starts_with("HTTP/") && version != "HTTP/1.1" && version != "HTTP/1.0";
}

}  // namespace

std::size_t find_head(std::string_view bytes, std::size_t from) {
  const std::size_t end = bytes.find("\r\n\r\n", from < 3 ? 0 : from - 3);
  return end == std::string_view::npos ? 0 : end + 4;
}

bool is_hopeless(std::string_view bytes) {
  const std::size_t space = bytes.substr(0, 32).find_first_not_of(
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~");
  return space == std::string_view::npos ? bytes.size() >= 32 : bytes[space] != ' ';
}

std::variant<Head, Refusal> parse_head(std::string_view text) {
  if (auto refused = check_lines(text)) return *std::move(refused);
  beast::request_parser<beast::empty_body> parser;
  parser.header_limit(kHeadBytesMax);
  parser.skip(true);  // or a long body would be an error
  boost::beast::error_code error;
  const std::size_t used = parser.put({text.data(), text.size()}, error);
  if (error == beast::error::bad_version && is_other_version(text)) {
    return Refusal{.status = 505, .code = "unsupported", .detail = "this server speaks HTTP/1.1"};
  }
  if (error) return malformed("the request's head is malformed: " + error.message());
  // Two opinions of where the head ends would make two requests of it.
  if (used != text.size()) return malformed("the head does not end");

  Head head;
  Framing framing;
  const auto& message = parser.get();
  if (auto refused = take_request_line(message, head)) return *std::move(refused);
  for (const auto& entry : message) {
    head.request.headers.add(entry.name_string(), entry.value());
    if (auto refused = take_field(entry.name(), entry.value(), head, framing)) {
      return *std::move(refused);
    }
  }
  if (auto refused = check_framing(head, framing)) return *std::move(refused);
  if (head.http_1_0) head.expects_continue = false;
  head.keep_alive = !framing.close && (framing.keep_alive || !head.http_1_0);
  return head;
}

}  // namespace onggi::http
