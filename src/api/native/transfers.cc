#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/native/native_api.h"
#include "api/native/tus.h"
#include "base/encoding.h"

namespace onggi::api {

using vfolder::TransferGrant;

Result<TransferToken> NativeApi::create_transfer_token(const Call& call,
                                                       const CreateTransferTokenParams& params,
                                                       const TransferTokenCreate& body) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(body.path));
  if (path.is_root()) {
    return fail(ErrorCode::invalid_argument, "\"/path\" must name a file below the vfolder");
  }
  const bool upload = body.operation == TransferOperation::upload;
  // Only what the caller may do itself can be handed on.
  RETURN_IF_ERROR(services_.vfolders.open(call.caller, params.vfolder,
                                          upload ? vfolder::Access::write : vfolder::Access::read));
  vfolder::TransferRequest request{.operation = upload ? vfolder::TransferOperation::upload
                                                       : vfolder::TransferOperation::download,
                                   .vfolder = params.vfolder,
                                   .path = path,
                                   .size_bytes = body.size_bytes,
                                   .expires_in = options_.transfer_expires_in};
  if (body.expires_in_seconds) request.expires_in = std::chrono::seconds(*body.expires_in_seconds);
  ASSIGN_OR_RETURN(const vfolder::NewTransferToken made,
                   services_.transfer_tokens.issue(call.caller, request));
  return TransferToken{
      .token = made.token,
      .url = fmt::format("/v1/transfers/{}?token={}", upload ? "upload" : "download",
                         percent_encode(made.token)),
      .expires = made.grant.expires};
}

Result<http::Response> NativeApi::download_transfer(const Call& call,
                                                    const DownloadTransferParams& params) {
  ASSIGN_OR_RETURN(
      const TransferGrant grant,
      services_.transfer_tokens.verify(params.token, vfolder::TransferOperation::download));
  return read_file(call, grant.principal(), grant.vfolder, grant.path);
}

Result<http::Response> NativeApi::head_download_transfer(const Call& call,
                                                         const HeadDownloadTransferParams& params) {
  return download_transfer(call, {.token = params.token});
}

Result<http::Intake> NativeApi::upload_transfer(const Call& call,
                                                const UploadTransferParams& params) {
  ASSIGN_OR_RETURN(
      const TransferGrant grant,
      services_.transfer_tokens.verify(params.token, vfolder::TransferOperation::upload));
  if (grant.size_bytes && call.request.content_length != grant.size_bytes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the token is for exactly {} bytes, announced as Content-Length",
                            *grant.size_bytes));
  }
  return write_file(call, grant.principal(), grant.vfolder, grant.path, true);
}

Result<vfolder::UploadStatus> NativeApi::session_of(const TransferGrant& grant) {
  const vfolder::Principal writer = grant.principal();
  Result<vfolder::UploadStatus> status = services_.uploads.status(writer, grant.id);
  if (status || status.error().code() != ErrorCode::not_found) return status;
  if (!grant.size_bytes) {
    return fail(ErrorCode::invalid_argument,
                "the token names no size_bytes, so its upload cannot be resumable: use PUT");
  }
  status = services_.uploads.create(writer, {.vfolder = grant.vfolder,
                                             .path = grant.path,
                                             .length = *grant.size_bytes,
                                             .xxh3 = {},
                                             .if_etag = {},
                                             .id = grant.id});
  // Another request of the same token was faster.
  if (!status && status.error().code() == ErrorCode::already_exists) {
    status = services_.uploads.status(writer, grant.id);
  }
  return status;
}

Result<http::Response> NativeApi::head_upload_transfer(const Call& call,
                                                       const HeadUploadTransferParams& params) {
  RETURN_IF_ERROR(check_tus_version(call.request.headers));
  ASSIGN_OR_RETURN(
      const TransferGrant grant,
      services_.transfer_tokens.verify(params.token, vfolder::TransferOperation::upload));
  return session_of(grant).map(tus_head_response);
}

Result<http::Intake> NativeApi::append_upload_transfer(const Call& call,
                                                       const AppendUploadTransferParams& params) {
  ASSIGN_OR_RETURN(
      const TransferGrant grant,
      services_.transfer_tokens.verify(params.token, vfolder::TransferOperation::upload));
  ASSIGN_OR_RETURN(const vfolder::UploadStatus session, session_of(grant));
  return append(call, grant.principal(), session.id);
}

}  // namespace onggi::api
