#include "http/head_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/encoding.h"

namespace onggi::http {
namespace {

constexpr std::size_t kFieldsMax = 128;
constexpr std::size_t kTargetBytesMax = 16 << 10;

using Refused = std::optional<Refusal>;

Refusal malformed(std::string detail) {
  return {.detail = std::move(detail)};
}

bool is_token_char(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<Method> parse_method(std::string_view text) {
  static constexpr auto kMethods =
      std::to_array<std::pair<std::string_view, Method>>({{"GET", Method::get},
                                                          {"HEAD", Method::head},
                                                          {"PUT", Method::put},
                                                          {"POST", Method::post},
                                                          {"PATCH", Method::patch},
                                                          {"DELETE", Method::del},
                                                          {"OPTIONS", Method::options}});
  for (const auto& [name, method] : kMethods) {
    if (name == text) return method;
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
  const bool printable =
      std::ranges::all_of(target, [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
  if (target.empty() || !printable) return malformed("the request target has forbidden characters");
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

Refused parse_request_line(std::string_view line, Head& head) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return malformed("the request line is not 'method target version'");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method)) return malformed("the method is not a token");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    if (!version.starts_with("HTTP/")) return malformed("the request line has no HTTP version");
    return Refusal{.status = 505, .code = "unsupported", .detail = "this server speaks HTTP/1.1"};
  }
  head.http_1_0 = version == "HTTP/1.0";
  const auto known = parse_method(method);
  if (!known) {
    return Refusal{.status = 501,
                   .code = "unsupported",
                   .reason = "unknown_method",
                   .detail = "no such method here"};
  }
  head.request.method = *known;
  return parse_target(line.substr(first + 1, last - first - 1), head.request);
}

// What the framing fields said so far: a repeated one must not change the story.
struct Framing {
  std::size_t hosts = 0;
  std::size_t codings = 0;
  bool close = false;
  bool keep_alive = false;
};

Refused take_content_length(std::string_view value, Request& request) {
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  const bool digits = !value.empty() && value.front() >= '0' && value.front() <= '9';
  if (!digits || error != std::errc() || end != value.data() + value.size() ||
      length > (std::uint64_t{1} << 62)) {
    return malformed("Content-Length is not a number");
  }
  if (request.content_length && *request.content_length != length) {
    return malformed("Content-Length came twice and differs");
  }
  request.content_length = length;
  return std::nullopt;
}

void take_connection(std::string_view value, Framing& framing) {
  while (!value.empty()) {
    const std::size_t comma = value.find(',');
    const std::string_view option = trim(value.substr(0, comma));
    if (equal_names(option, "close")) framing.close = true;
    if (equal_names(option, "keep-alive")) framing.keep_alive = true;
    value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
  }
}

Refused take_field(std::string_view name, std::string_view value, Head& head, Framing& framing) {
  if (equal_names(name, "Content-Length")) return take_content_length(value, head.request);
  if (equal_names(name, "Transfer-Encoding")) {
    ++framing.codings;
    if (!equal_names(value, "chunked")) {
      return Refusal{.status = 501,
                     .code = "unsupported",
                     .detail = "the only transfer coding taken here is chunked"};
    }
    head.request.chunked = true;
  } else if (equal_names(name, "Connection")) {
    take_connection(value, framing);
  } else if (equal_names(name, "Host")) {
    ++framing.hosts;
  } else if (equal_names(name, "Expect")) {
    if (!equal_names(value, "100-continue")) {
      return Refusal{.status = 417, .code = "unsupported", .detail = "unknown expectation"};
    }
    head.expects_continue = true;
  }
  return std::nullopt;
}

Refused parse_field(std::string_view line, Head& head, Framing& framing) {
  if (line.front() == ' ' || line.front() == '\t') return malformed("a header field is folded");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return malformed("a header field has no valid name");
  }
  const std::string_view value = trim(line.substr(colon + 1));
  if (std::ranges::any_of(value, is_control)) {
    return malformed("a header field has control characters");
  }
  if (head.request.headers.all().size() >= kFieldsMax) {
    return Refusal{.status = 431,
                   .code = "too_large",
                   .reason = "header_too_large",
                   .detail = "too many header fields"};
  }
  const std::string_view name = line.substr(0, colon);
  head.request.headers.add(std::string(name), std::string(value));
  return take_field(name, value, head, framing);
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
  Head head;
  Framing framing;
  bool first = true;
  while (true) {
    const std::size_t end = text.find("\r\n");
    if (end == std::string_view::npos) return malformed("the head does not end");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    if (line.empty() && !first) break;
    auto refused = first ? parse_request_line(line, head) : parse_field(line, head, framing);
    if (refused) return *std::move(refused);
    first = false;
  }
  if (auto refused = check_framing(head, framing)) return *std::move(refused);
  if (head.http_1_0) head.expects_continue = false;
  head.keep_alive = !framing.close && (framing.keep_alive || !head.http_1_0);
  return head;
}

}  // namespace onggi::http
