#include "http/router.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/json.hpp>

#include "base/check.h"
#include "base/encoding.h"

namespace onggi::http {
namespace {

// "/a/b/" is {"a", "b", ""}: a trailing slash names another resource.
std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> segments;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const std::size_t slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool is_parameter(std::string_view segment) {
  return segment.starts_with('{');
}

bool is_rest(std::string_view segment) {
  return segment.ends_with("*}");
}

std::string parameter_name(std::string_view segment) {
  return std::string(segment.substr(1, segment.size() - (is_rest(segment) ? 3 : 2)));
}

bool fits(const std::vector<std::string>& pattern, const std::vector<std::string_view>& path) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_rest(pattern[i])) return true;
    if (i >= path.size()) return false;
    if (is_parameter(pattern[i]) ? path[i].empty() : pattern[i] != path[i]) return false;
  }
  return pattern.size() == path.size();
}

// Decodes what follows segment by segment: an encoded slash would pass for a separator once the
// segments are joined, so it is refused.
Result<std::string> decode_rest(const std::vector<std::string_view>& path, std::size_t from) {
  std::string rest;
  for (std::size_t i = from; i < path.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string segment, percent_decode(path[i]));
    if (segment.find('/') != std::string::npos) {
      return fail(ErrorCode::invalid_argument, "an encoded '/' cannot be part of a file's name");
    }
    if (i > from) rest += '/';
    rest += segment;
  }
  return rest;
}

Status fill_parameters(const std::vector<std::string>& pattern,
                       const std::vector<std::string_view>& path, Request& request) {
  request.params.clear();
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!is_parameter(pattern[i])) continue;
    ASSIGN_OR_RETURN(std::string value,
                     is_rest(pattern[i]) ? decode_rest(path, i) : percent_decode(path[i]));
    request.params[parameter_name(pattern[i])] = std::move(value);
  }
  return {};
}

std::unique_ptr<Router::Route> make_route(Method method, std::string_view pattern) {
  auto route = std::make_unique<Router::Route>();
  route->method = method;
  route->pattern = pattern;
  for (const std::string_view segment : split(pattern)) route->segments.emplace_back(segment);
  for (const std::string& segment : route->segments) {
    CHECK(!is_rest(segment) || &segment == &route->segments.back());
  }
  return route;
}

}  // namespace

void Router::handle(Method method, std::string_view pattern, Handler handler) {
  routes_.push_back(make_route(method, pattern));
  routes_.back()->handler = std::move(handler);
}

void Router::take(Method method, std::string_view pattern, IntakeHandler handler) {
  routes_.push_back(make_route(method, pattern));
  routes_.back()->intake = std::move(handler);
}

Result<const Router::Route*> Router::match(Request& request) const {
  const std::vector<std::string_view> path = split(request.path);
  const Route* found = nullptr;
  std::string allowed;
  for (const auto& route : routes_) {
    if (!fits(route->segments, path)) continue;
    if (route->method == request.method) {
      found = route.get();
      break;
    }
    // A HEAD is a GET whose body stays here, unless it has a route of its own.
    if (request.method == Method::head && route->method == Method::get && found == nullptr) {
      found = route.get();
    }
    if (!allowed.empty()) allowed += ", ";
    allowed += to_string(route->method);
  }
  if (found != nullptr) {
    RETURN_IF_ERROR(fill_parameters(found->segments, path, request));
    return found;
  }
  if (allowed.empty()) return fail(ErrorCode::not_found, "no such path");
  return fail(ErrorCode::unsupported, allowed);
}

Response problem(int status, std::string_view code, std::string_view detail,
                 std::string_view request_id) {
  Response response;
  response.status = status;
  response.headers.set("Content-Type", "application/problem+json");
  response.text = boost::json::serialize(boost::json::object{
      {"type", "about:blank"},
      {"title", std::string(reason_phrase(status))},
      {"status", status},
      {"detail", std::string(detail)},
      {"code", std::string(code)},
      {"request_id", std::string(request_id)},
  });
  return response;
}

std::string_view to_string(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::put:
      return "PUT";
    case Method::post:
      return "POST";
    case Method::patch:
      return "PATCH";
    case Method::del:
      return "DELETE";
    case Method::options:
      return "OPTIONS";
  }
  return "GET";
}

std::string_view reason_phrase(int status) {
  static constexpr auto kPhrases = std::to_array<std::pair<int, std::string_view>>({
      {100, "Continue"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {301, "Moved Permanently"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {460, "Checksum Mismatch"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {507, "Insufficient Storage"},
  });
  const auto* const found =
      std::ranges::find(kPhrases, status, [](const auto& phrase) { return phrase.first; });
  return found == kPhrases.end() ? std::string_view("Unknown") : found->second;
}

}  // namespace onggi::http
