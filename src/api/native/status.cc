#include "api/native/status.h"

#include "base/log.h"
#include "http/router.h"

namespace onggi::api {

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 400;
    case ErrorCode::unauthenticated:
      return 401;
    case ErrorCode::permission_denied:
      return 403;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::already_exists:
    case ErrorCode::conflict:
      return 409;
    case ErrorCode::condition_failed:
      return 412;
    case ErrorCode::too_large:
      return 413;
    case ErrorCode::unsupported:
      return 501;
    case ErrorCode::resource_exhausted:
      return 429;
    case ErrorCode::storage_full:
      return 507;
    case ErrorCode::unavailable:
      return 503;
    case ErrorCode::deadline_exceeded:
      return 504;
    case ErrorCode::cancelled:
      return 499;
    case ErrorCode::corruption:
    case ErrorCode::internal:
      return 500;
  }
  return 500;
}

http::Response error_response(const Error& error, std::string_view request_id,
                              std::optional<int> status) {
  const int code = status.value_or(http_status(error.code()));
  if (code == 500) {
    LOG_ERROR("request failed", {{"request_id", request_id},
                                 {"code", to_string(error.code())},
                                 {"error", error.message()}});
  }
  http::Response response =
      http::problem(code, to_string(error.code()), error.message(), request_id);
  if (code == 401) response.headers.set("WWW-Authenticate", "Bearer realm=\"onggi\"");
  if (code == 429 || code == 503) response.headers.set("Retry-After", "1");
  return response;
}

}  // namespace onggi::api
