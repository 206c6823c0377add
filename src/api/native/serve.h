#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "api/native/call.h"
#include "api/native/json.h"
#include "base/result.h"
#include "base/uuid.h"
#include "http/message.h"

// What the generated bindings (bind.cc) put around every handler: the gatekeeper before it, problem
// details after it, and the reading of parameters and bodies. Thread-safe, stateless.
namespace onggi::api {

http::Response serve(Gatekeeper& gate, http::Request& request, Access access,
                     const std::function<Result<http::Response>(const Call&)>& work);
http::Intake receive(Gatekeeper& gate, http::Request& request, Access access,
                     const std::function<Result<http::Intake>(const Call&)>& work);

// Marks what answers a TUS request as such.
void finish_tus(http::Response& response);
bool is_tus(const http::Request& request);

Status known_query(const http::Request& request, std::initializer_list<std::string_view> known);
void take_path_param(const http::Request& request, const std::string& name, std::string& out);
// Text that is no UUID gives the nil one, which names nothing: so it is answered exactly like an id
// that is missing.
void take_path_param(const http::Request& request, const std::string& name, Uuid& out);

template <typename T>
Status path_param(const http::Request& request, const std::string& name, T& out) {
  take_path_param(request, name, out);
  return {};
}

Status read_text(std::string_view name, const std::string& text, std::string& out);
Status read_text(std::string_view name, const std::string& text, std::uint64_t& out);
Status read_text(std::string_view name, const std::string& text, bool& out);

template <typename T>
Status query_param(const http::Request& request, const std::string& name, T& out) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? Status() : read_text(name, found->second, out);
}

template <typename T>
Status query_param(const http::Request& request, const std::string& name, std::optional<T>& out) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? Status() : read_text(name, found->second, out.emplace());
}

Status required_query(const http::Request& request, const std::string& name, std::string& out);

// Refuses content types other than JSON, which browsers could send without asking (CSRF).
Status check_json_type(const http::Request& request);

template <typename T>
Status read_body(const http::Request& request, T& out) {
  RETURN_IF_ERROR(check_json_type(request));
  ASSIGN_OR_RETURN(const boost::json::value value, parse_json(request.body));
  return read(value, "", out);
}

http::Response text_response(int status, std::string type, std::string text);

template <typename T>
Result<http::Response> json_response(int status, const Result<T>& result) {
  if (!result) return tl::unexpected(result.error());
  if constexpr (std::is_void_v<T>) {
    http::Response response;
    response.status = status;
    return response;
  } else {
    std::string text;
    write(text, *result);
    return text_response(status, "application/json", std::move(text));
  }
}

}  // namespace onggi::api
