#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "http/message.h"

namespace onggi::http {

// A request head, and what it asks of the connection.
struct Head {
  Request request;  // but for peer, params, body and request_id
  bool keep_alive = true;
  bool http_1_0 = false;  // understands no chunked response
  bool expects_continue = false;
};

// Why a request is refused before any handler sees it.
struct Refusal {
  int status = 400;
  std::string_view code = "invalid_argument";  // of the problem details
  std::string_view reason = "malformed";       // the metric's label
  std::string detail;
};

// The size of the head at the start of `bytes` with its blank line; 0 while that is missing. `from`
// says how many bytes were searched before.
std::size_t find_head(std::string_view bytes, std::size_t from);

// True when no continuation of `bytes` can be a request, as when somebody speaks TLS to us.
bool is_hopeless(std::string_view bytes);

// Parses one head, blank line included, by RFC 9112 and stricter: lines end in CR LF, nothing is
// folded, and whatever two servers could read differently (two lengths, a length and a coding, two
// hosts) is refused, so that no request can hide in another's body.
std::variant<Head, Refusal> parse_head(std::string_view head);

}  // namespace onggi::http
