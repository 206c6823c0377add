#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "http/message.h"

namespace onggi::api {

// The HTTP status of an error: the one table of it.
int http_status(ErrorCode code);

// Problem details for `error`, under another status than the table's where a protocol demands it.
// Logs what is our own fault.
http::Response error_response(const Error& error, std::string_view request_id,
                              std::optional<int> status = std::nullopt);

}  // namespace onggi::api
