#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "http/message.h"
#include "vfolder/uploads.h"

// The wire side of TUS 1.0.0, for uploads and for transfer tokens. Stateless.
namespace onggi::api {

inline constexpr std::string_view kTusContentType = "application/offset+octet-stream";

// condition_failed (412) unless the request speaks version 1.0.0.
Status check_tus_version(const http::Headers& headers);
Result<std::uint64_t> required_number(const http::Headers& headers, std::string_view name);
// 415 for a body of another type than TUS has.
std::optional<http::Response> refuse_other_type(const http::Request& request);

http::Response tus_response(int status, const vfolder::UploadStatus& upload);
http::Response tus_head_response(const vfolder::UploadStatus& upload);
http::Response tus_error(const Error& error, std::string_view request_id);

}  // namespace onggi::api
