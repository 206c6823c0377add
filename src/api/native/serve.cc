#include "api/native/serve.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "api/native/status.h"
#include "base/log.h"
#include "http/router.h"

namespace onggi::api {

namespace {

// The path without its query: transfer tokens travel there, and no secret is ever logged.
void log_request(const http::Request& request, int status) {
  LOG_DEBUG("request", {{"method", http::to_string(request.method)},
                        {"path", request.path},
                        {"status", status},
                        {"peer", request.peer.address},
                        {"request_id", request.request_id}});
}

void finish(const http::Request& request, http::Response& response) {
  if (is_tus(request)) finish_tus(response);
  log_request(request, response.status);
}

}  // namespace

bool is_tus(const http::Request& request) {
  return request.headers.get("Tus-Resumable").has_value();
}

void finish_tus(http::Response& response) {
  response.headers.set("Tus-Resumable", "1.0.0");
  if (response.status == 412) response.headers.set("Tus-Version", "1.0.0");
}

http::Response serve(Gatekeeper& gate, http::Request& request, Access access,
                     const std::function<Result<http::Response>(const Call&)>& work) {
  Result<http::Response> result =
      gate.authorize(request, access).and_then([&](vfolder::Principal caller) {
        return work({.request = request, .caller = std::move(caller)});
      });
  http::Response response =
      result ? *std::move(result) : error_response(result.error(), request.request_id);
  finish(request, response);
  return response;
}

http::Intake receive(Gatekeeper& gate, http::Request& request, Access access,
                     const std::function<Result<http::Intake>(const Call&)>& work) {
  Result<http::Intake> result =
      gate.authorize(request, access).and_then([&](vfolder::Principal caller) {
        return work({.request = request, .caller = std::move(caller)});
      });
  http::Intake intake;
  if (result) {
    intake = *std::move(result);
  } else {
    intake.response = error_response(result.error(), request.request_id);
  }
  if (intake.response) finish(request, *intake.response);
  return intake;
}

Status known_query(const http::Request& request, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(known, name) == known.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("query parameter \"{}\" is unknown", name));
    }
  }
  return {};
}

void take_path_param(const http::Request& request, const std::string& name, std::string& out) {
  const auto found = request.params.find(name);
  if (found != request.params.end()) out = found->second;
}

void take_path_param(const http::Request& request, const std::string& name, Uuid& out) {
  std::string text;
  take_path_param(request, name, text);
  out = Uuid::parse(text).value_or(Uuid());
}

Status read_text(std::string_view /*name*/, const std::string& text, std::string& out) {
  out = text;
  return {};
}

Status read_text(std::string_view name, const std::string& text, std::uint64_t& out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || stop != end || out > kIntegerMax) {
    return fail(ErrorCode::invalid_argument, fmt::format("\"{}\" must be a whole number", name));
  }
  return {};
}

Status read_text(std::string_view name, const std::string& text, bool& out) {
  if (text != "true" && text != "false") {
    return fail(ErrorCode::invalid_argument, fmt::format("\"{}\" must be true or false", name));
  }
  out = text == "true";
  return {};
}

Status required_query(const http::Request& request, const std::string& name, std::string& out) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("query parameter \"{}\" is missing", name));
  }
  out = found->second;
  return {};
}

Status check_json_type(const http::Request& request) {
  std::string type(request.headers.get("Content-Type").value_or(""));
  type.resize(std::min(type.find(';'), type.size()));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  if (type == "application/json") return {};
  return fail(ErrorCode::invalid_argument, "the body's Content-Type must be application/json");
}

http::Response text_response(int status, std::string type, std::string text) {
  http::Response response;
  response.status = status;
  response.headers.set("Content-Type", std::move(type));
  response.text = std::move(text);
  return response;
}

}  // namespace onggi::api
