#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "api/native/conditions.h"
#include "api/native/native_api.h"
#include "api/native/serve.h"
#include "api/native/session_sink.h"
#include "api/native/status.h"
#include "api/native/tus.h"
#include "vfolder/upload_metadata.h"

// TUS 1.0.0 over the upload sessions of vfolder/uploads.h.
namespace onggi::api {

Status check_tus_version(const http::Headers& headers) {
  const std::optional<std::string_view> version = headers.get("Tus-Resumable");
  if (version == "1.0.0") return {};
  return fail(ErrorCode::condition_failed, version ? "only TUS 1.0.0 is spoken here"
                                                   : "the header Tus-Resumable: 1.0.0 is missing");
}

Result<std::uint64_t> required_number(const http::Headers& headers, std::string_view name) {
  const std::optional<std::string_view> text = headers.get(name);
  if (!text)
    return fail(ErrorCode::invalid_argument, fmt::format("the header {} is missing", name));
  std::uint64_t value = 0;
  RETURN_IF_ERROR(read_text(name, std::string(*text), value));
  return value;
}

std::optional<http::Response> refuse_other_type(const http::Request& request) {
  if (request.headers.get("Content-Type") == kTusContentType) return std::nullopt;
  return http::problem(415, "invalid_argument",
                       fmt::format("the body's Content-Type must be {}", kTusContentType),
                       request.request_id);
}

http::Response tus_response(int status, const vfolder::UploadStatus& upload) {
  http::Response response;
  response.status = status;
  response.headers.set("Upload-Offset", std::to_string(upload.offset));
  if (upload.etag) {
    response.headers.set("ETag", quoted_etag(*upload.etag));
  } else {
    response.headers.set("Upload-Expires", http_date(upload.expires));
  }
  finish_tus(response);
  return response;
}

http::Response tus_error(const Error& error, std::string_view request_id) {
  // TUS has a status of its own for bytes that differ from their checksum.
  const bool mismatch = error.code() == ErrorCode::corruption;
  http::Response response =
      error_response(error, request_id, mismatch ? std::optional(460) : std::nullopt);
  finish_tus(response);
  return response;
}

http::Response tus_head_response(const vfolder::UploadStatus& upload) {
  http::Response response = tus_response(200, upload);
  response.headers.set("Upload-Length", std::to_string(upload.length));
  response.headers.set("Cache-Control", "no-store");
  return response;
}

namespace {

Result<std::optional<vfolder::ChunkChecksum>> chunk_checksum(const http::Headers& headers) {
  const std::optional<std::string_view> text = headers.get("Upload-Checksum");
  if (!text) return std::nullopt;
  return vfolder::parse_upload_checksum(*text);
}

bool has_body(const http::Request& request) {
  return request.chunked || request.content_length.value_or(0) > 0;
}

http::Response created_response(const vfolder::UploadStatus& upload) {
  http::Response response = tus_response(201, upload);
  response.headers.set("Location", fmt::format("/v1/uploads/{}", upload.id.to_string()));
  return response;
}

}  // namespace

Result<http::Response> NativeApi::get_upload_options(const Call& /*call*/,
                                                     const GetUploadOptionsParams& /*params*/) {
  http::Response response;
  response.status = 204;
  response.headers.set("Tus-Resumable", "1.0.0");
  response.headers.set("Tus-Version", "1.0.0");
  response.headers.set("Tus-Extension",
                       "creation,creation-with-upload,checksum,termination,expiration");
  response.headers.set("Tus-Checksum-Algorithm", "sha1,xxh3");
  response.headers.set("Tus-Max-Size", std::to_string(services_.uploads.options().length_max));
  return response;
}

Result<http::Intake> NativeApi::create_upload(const Call& call, const CreateUploadParams& params) {
  const http::Request& request = call.request;
  RETURN_IF_ERROR(check_tus_version(request.headers));
  ASSIGN_OR_RETURN(const std::uint64_t length, required_number(request.headers, "Upload-Length"));
  ASSIGN_OR_RETURN(
      vfolder::UploadMetadata metadata,
      vfolder::parse_upload_metadata(request.headers.get("Upload-Metadata").value_or("")));
  ASSIGN_OR_RETURN(WriteConditions conditions, write_conditions(request.headers, [&] {
                     return services_.files.stat(call.caller, params.vfolder, metadata.path);
                   }));
  ASSIGN_OR_RETURN(const auto checksum, chunk_checksum(request.headers));
  http::Intake intake;
  if (has_body(request)) intake.response = refuse_other_type(request);
  if (intake.response) return intake;

  ASSIGN_OR_RETURN(const vfolder::UploadStatus upload,
                   services_.uploads.create(call.caller, {.vfolder = params.vfolder,
                                                          .path = std::move(metadata.path),
                                                          .length = length,
                                                          .xxh3 = metadata.xxh3,
                                                          .if_etag = std::move(conditions.if_etag),
                                                          .if_absent = conditions.if_absent,
                                                          .id = {}}));
  if (!has_body(request)) {
    intake.response = created_response(upload);
    return intake;
  }
  ASSIGN_OR_RETURN(auto session,
                   services_.uploads.append(
                       call.caller, upload.id,
                       {.offset = 0, .checksum = checksum, .length = request.content_length}));
  return take_into<vfolder::AppendSession>(
      std::move(session),
      [](vfolder::AppendSession& open) { return open.finish().map(created_response); },
      [request_id = request.request_id](const Error& error) {
        return tus_error(error, request_id);
      });
}

Result<http::Response> NativeApi::head_upload(const Call& call, const HeadUploadParams& params) {
  RETURN_IF_ERROR(check_tus_version(call.request.headers));
  return services_.uploads.status(call.caller, params.upload).map(tus_head_response);
}

Result<http::Intake> NativeApi::append(const Call& call, const vfolder::Principal& writer,
                                       const Uuid& upload) {
  const http::Request& request = call.request;
  RETURN_IF_ERROR(check_tus_version(request.headers));
  http::Intake intake;
  intake.response = refuse_other_type(request);
  if (intake.response) return intake;
  ASSIGN_OR_RETURN(const std::uint64_t offset, required_number(request.headers, "Upload-Offset"));
  ASSIGN_OR_RETURN(auto checksum, chunk_checksum(request.headers));
  ASSIGN_OR_RETURN(auto session, services_.uploads.append(writer, upload,
                                                          {.offset = offset,
                                                           .checksum = std::move(checksum),
                                                           .length = request.content_length}));
  return take_into<vfolder::AppendSession>(
      std::move(session),
      [](vfolder::AppendSession& open) {
        return open.finish().map(
            [](const vfolder::UploadStatus& now) { return tus_response(204, now); });
      },
      [request_id = request.request_id](const Error& error) {
        return tus_error(error, request_id);
      });
}

Result<http::Intake> NativeApi::append_upload(const Call& call, const AppendUploadParams& params) {
  return append(call, call.caller, params.upload);
}

Result<http::Response> NativeApi::delete_upload(const Call& call,
                                                const DeleteUploadParams& params) {
  RETURN_IF_ERROR(check_tus_version(call.request.headers));
  RETURN_IF_ERROR(services_.uploads.terminate(call.caller, params.upload));
  http::Response response;
  response.status = 204;
  return response;
}

}  // namespace onggi::api
