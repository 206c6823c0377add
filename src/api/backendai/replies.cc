#include "api/backendai/replies.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "api/backendai/python_json.h"
#include "http/router.h"

namespace onggi::api::backendai {
namespace {

constexpr const char* kJson = "application/json; charset=utf-8";
constexpr const char* kProblem = "application/problem+json; charset=utf-8";

http::Response reply(int status, const char* type, std::string text) {
  http::Response response;
  response.status = status;
  response.headers.set("Content-Type", type);
  response.text = std::move(text);
  return response;
}

boost::json::object problem_object(const Problem& problem) {
  boost::json::object body;
  body["type"] = fmt::format("https://api.backend.ai/probs/{}", problem.type);
  body["title"] = problem.title;
  if (!problem.code.empty()) body["error_code"] = problem.code;
  if (!problem.message.empty()) body["msg"] = problem.message;
  return body;
}

http::Response problem_text(int status, const boost::json::object& body) {
  return reply(status, kProblem, boost::json::serialize(body));
}

// What the kernel would have said; 0 when the error is none of the caller's.
int errno_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found:
      return ENOENT;
    case ErrorCode::already_exists:
      return EEXIST;
    case ErrorCode::conflict:
      return ENOTEMPTY;
    case ErrorCode::permission_denied:
      return EACCES;
    case ErrorCode::storage_full:
      return ENOSPC;
    case ErrorCode::invalid_argument:
      return EINVAL;
    default:
      return 0;
  }
}

}  // namespace

http::Response json_reply(int status, const boost::json::value& value) {
  return reply(status, kJson, python_json(value));
}

http::Response problem_reply(const Problem& problem) {
  return problem_text(problem.status, problem_object(problem));
}

http::Response invalid_parameters(const boost::json::value& data) {
  boost::json::object body =
      problem_object({.type = "storage/invalid-api-params", .title = "Invalid API parameters"});
  body["data"] = data;
  return problem_text(400, body);
}

http::Response malformed_body(std::string_view what) {
  return problem_reply({.type = "generic-bad-request",
                        .title = "Malformed request body.",
                        .code = "api_parsing_bad-request",
                        .message = fmt::format("Malformed body: {}", what)});
}

http::Response unexpected_body() {
  return problem_reply({.type = "storage/malformed-request",
                        .title = "Malformed request (request body should be empty)"});
}

http::Response unsupported_operation() {
  return problem_reply({.type = "storage/unsupported-operation",
                        .title = "Unsupported operation by the storage backend"});
}

http::Response missing_auth_token() {
  return problem_reply(
      {.status = 403, .type = "storage/forbidden", .title = "Forbidden (missing auth token)"});
}

http::Response invalid_auth_token() {
  return problem_reply(
      {.status = 403, .type = "storage/forbidden", .title = "Forbidden (invalid auth token)"});
}

http::Response invalid_volume(std::string_view volume) {
  return problem_reply({.type = "storage/volume/invalid",
                        .title = "Invalid Volume",
                        .code = "storage_access_invalid-parameters",
                        .message = std::string(volume)});
}

http::Response vfolder_not_found(std::string_view vfid) {
  return problem_reply({.status = 404,
                        .type = "storage/vfolder/not-found",
                        .title = "VFolder Not Found",
                        .code = "vfolder_read_not-found",
                        .message = fmt::format("VFolder not found or not a directory: {}", vfid)});
}

http::Response invalid_subpath(std::string_view vfid, std::string_view path) {
  const std::string what = fmt::format("Invalid Subpath (vfid={}, relpath={})", vfid, path);
  boost::json::object body = problem_object({.type = "storage/subpath/invalid",
                                             .title = "Invalid Subpath",
                                             .code = "vfolder_access_invalid-parameters",
                                             .message = what});
  body["data"] = what;
  return problem_text(400, body);
}

http::Response quota_scope_not_found() {
  return problem_reply({.status = 404,
                        .type = "storage/quota/scope/not-found",
                        .title = "Quota Scope Not Found",
                        .code = "quota-scope_read_not-found"});
}

http::Response file_error(const Error& error, std::string_view path) {
  if (const int number = errno_of(error.code()); number != 0) {
    const boost::json::object body = {{"msg", std::generic_category().message(number)},
                                      {"errno", number},
                                      {"paths", boost::json::array{path}}};
    return reply(400, kJson, boost::json::serialize(body));
  }
  const bool later = error.code() == ErrorCode::unavailable ||
                     error.code() == ErrorCode::deadline_exceeded ||
                     error.code() == ErrorCode::resource_exhausted;
  return problem_reply({.status = later ? 503 : 500,
                        .type = "storage/generic",
                        .title = "Storage Proxy Error",
                        .code = "storage-proxy_generic_internal-error",
                        .message = error.message()});
}

http::Response plain_refusal(int status, std::size_t body_bytes_max) {
  return reply(status, "text/plain; charset=utf-8",
               status == 413 ? fmt::format("Maximum request body size {} exceeded.", body_bytes_max)
                             : fmt::format("{}: {}", status, http::reason_phrase(status)));
}

}  // namespace onggi::api::backendai
