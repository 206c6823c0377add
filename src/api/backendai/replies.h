#pragma once

#include <string>
#include <string_view>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/error.h"
#include "http/message.h"

// The shapes of answers of backend.ai-storage-proxy 26.9. Managers choose what to raise by the
// domain of `error_code` ("vfolder_read_not-found" is of the domain vfolder), so it is part of the
// contract as much as the status.
namespace onggi::api::backendai {

// JSON in Python's spelling.
http::Response json_reply(int status, const boost::json::value& value);

// {"type":"https://api.backend.ai/probs/<type>","title":…,"error_code":…,"msg":…}; an empty code or
// message is left out.
struct Problem {
  int status = 400;
  std::string_view type;  // "storage/volume/invalid"
  std::string_view title;
  std::string_view code;
  std::string message;
};
http::Response problem_reply(const Problem& problem);

// 400 for parameters that are wrong: `data` is {field: message}, or what is wrong with them all.
http::Response invalid_parameters(const boost::json::value& data);
// 400 for a body that is not JSON.
http::Response malformed_body(std::string_view what);
// 400 for a body where none may be.
http::Response unexpected_body();
http::Response unsupported_operation();

http::Response missing_auth_token();
http::Response invalid_auth_token();

http::Response invalid_volume(std::string_view volume);
http::Response vfolder_not_found(std::string_view vfid);
http::Response invalid_subpath(std::string_view vfid, std::string_view path);
http::Response quota_scope_not_found();

// {"msg": strerror, "errno": n, "paths": […]}: a file operation that failed, and about which path.
// What is not the caller's fault (a volume that does not answer, a full queue) is a problem of its
// own: 503, or 500.
http::Response file_error(const Error& error, std::string_view path);

// aiohttp's plain text for 404, 405, 413 and the like: "404: Not Found".
http::Response plain_refusal(int status, std::size_t body_bytes_max);

}  // namespace onggi::api::backendai
