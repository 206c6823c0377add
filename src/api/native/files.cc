#include <algorithm>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "api/native/conditions.h"
#include "api/native/native_api.h"
#include "api/native/serve.h"
#include "api/native/session_sink.h"
#include "api/native/status.h"
#include "http/router.h"
#include "vfolder/upload_metadata.h"

namespace onggi::api {

namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;

// A file's bytes where the kernel cannot move them by itself.
class FileStream final : public http::Stream {
 public:
  FileStream(vfolder::OpenFile file, ByteRange range)
      : file_(std::move(file)),
        range_(range),
        buffer_(std::min<std::uint64_t>(kReadBytes, range.length)) {}

  Result<std::span<const std::byte>> next() override {
    const std::span<std::byte> want =
        std::span(buffer_).first(std::min<std::uint64_t>(buffer_.size(), range_.length));
    if (want.empty()) return std::span<const std::byte>();
    ASSIGN_OR_RETURN(const std::size_t got, file_.handle->read(range_.first, want));
    if (got == 0) return fail(ErrorCode::conflict, "the file became shorter while it was read");
    range_.first += got;
    range_.length -= got;
    return std::span<const std::byte>(buffer_).first(got);
  }

 private:
  vfolder::OpenFile file_;
  ByteRange range_;
  std::vector<std::byte> buffer_;
};

class TarStream final : public http::Stream {
 public:
  explicit TarStream(std::unique_ptr<vfolder::ArchiveStream> archive)
      : archive_(std::move(archive)) {}
  Result<std::span<const std::byte>> next() override { return archive_->next(); }
  void cancel() override { archive_->cancel(); }

 private:
  std::unique_ptr<vfolder::ArchiveStream> archive_;
};

Status set_body(http::Response& response, vfolder::OpenFile file, ByteRange range) {
  const std::optional<int> descriptor = file.handle->descriptor();
  if (!descriptor) {
    response.stream = std::make_unique<FileStream>(std::move(file), range);
    return {};
  }
  FileDescriptor own(fcntl(*descriptor, F_DUPFD_CLOEXEC, 0));
  if (!own) return fail_errno("keep the file open");
  response.file =
      http::FileBody{.file = std::move(own), .offset = range.first, .length = range.length};
  return {};
}

http::Response unsatisfiable(const backend::FileInfo& info, std::string_view request_id) {
  http::Response response = http::problem(
      416, "invalid_argument",
      fmt::format("the range lies outside the file's {} bytes", info.size_bytes), request_id);
  response.headers.set("Content-Range", fmt::format("bytes */{}", info.size_bytes));
  return response;
}

http::Response written_response(const backend::RelPath& path, const vfolder::Written& written) {
  std::string text;
  write(text, entry_of(path.text(), written.info));
  http::Response response =
      text_response(written.created ? 201 : 200, "application/json", std::move(text));
  response.headers.set("ETag", quoted_etag(written.info.etag));
  return response;
}

Result<std::optional<std::uint64_t>> announced_xxh3(const http::Headers& headers) {
  const auto checksum = headers.get("Onggi-Checksum");
  if (!checksum) return std::nullopt;
  return vfolder::parse_xxh3(*checksum);
}

// Where a checksum differs, what the client sent is not what it announced: its fault, not the
// storage's.
http::Response sent_wrongly(const Error& error, std::string_view request_id) {
  const bool mismatch = error.code() == ErrorCode::corruption;
  return error_response(error, request_id, mismatch ? std::optional(400) : std::nullopt);
}

}  // namespace

Result<http::Response> NativeApi::read_file(const Call& call, const vfolder::Principal& reader,
                                            const Uuid& vfolder, const backend::RelPath& path) {
  ASSIGN_OR_RETURN(vfolder::OpenFile file, services_.files.open(reader, vfolder, path));
  const backend::FileInfo info = file.handle->info();
  http::Response response;
  response.headers.set("ETag", quoted_etag(info.etag));
  response.headers.set("Last-Modified", http_date(info.modified));
  response.headers.set("Accept-Ranges", "bytes");
  const ReadCondition condition = check_read(call.request.headers, info);
  if (condition == ReadCondition::failed) {
    return fail(ErrorCode::condition_failed, "the file is not the version that If-Match names");
  }
  if (condition == ReadCondition::not_modified) {
    response.status = 304;
    return response;
  }
  // Only GET has ranges (RFC 9110 §14.2).
  RangeChoice choice = call.request.method == http::Method::get
                           ? choose_range(call.request.headers, info)
                           : RangeChoice{};
  if (choice.kind == RangeKind::unsatisfiable) return unsatisfiable(info, call.request.request_id);
  if (choice.kind == RangeKind::whole) {
    choice.range = {.first = 0, .length = info.size_bytes};
  } else {
    response.status = 206;
    response.headers.set("Content-Range", fmt::format("bytes {}-{}/{}", choice.range.first,
                                                      choice.range.first + choice.range.length - 1,
                                                      info.size_bytes));
  }
  response.headers.set("Content-Type", "application/octet-stream");
  response.headers.set("X-Content-Type-Options", "nosniff");
  RETURN_IF_ERROR(set_body(response, std::move(file), choice.range));
  return response;
}

Result<http::Response> NativeApi::get_file(const Call& call, const GetFileParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  return read_file(call, call.caller, params.vfolder, path);
}

Result<http::Response> NativeApi::head_file(const Call& call, const HeadFileParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  return read_file(call, call.caller, params.vfolder, path);
}

Result<http::Intake> NativeApi::write_file(const Call& call, const vfolder::Principal& writer,
                                           const Uuid& vfolder, const backend::RelPath& path,
                                           bool durable) {
  const http::Headers& headers = call.request.headers;
  ASSIGN_OR_RETURN(WriteConditions conditions, write_conditions(headers, [&] {
                     return services_.files.stat(writer, vfolder, path);
                   }));
  vfolder::WriteOptions options{.size_hint = call.request.content_length.value_or(0),
                                .xxh3 = {},
                                .if_etag = std::move(conditions.if_etag),
                                .if_absent = conditions.if_absent,
                                .durable = durable};
  ASSIGN_OR_RETURN(options.xxh3, announced_xxh3(headers));
  ASSIGN_OR_RETURN(auto session, services_.files.write(writer, vfolder, path, options));
  return take_into<vfolder::WriteSession>(
      std::move(session),
      [path](vfolder::WriteSession& open) -> Result<http::Response> {
        ASSIGN_OR_RETURN(const vfolder::Written written, open.finish());
        return written_response(path, written);
      },
      [request_id = call.request.request_id](const Error& error) {
        return sent_wrongly(error, request_id);
      });
}

Result<http::Intake> NativeApi::put_file(const Call& call, const PutFileParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  return write_file(call, call.caller, params.vfolder, path, params.durable);
}

Status NativeApi::delete_file(const Call& call, const DeleteFileParams& params) {
  if (call.request.headers.get("If-Match")) {
    return fail(ErrorCode::unsupported, "a conditional delete is not possible");
  }
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  return services_.files.remove(call.caller, params.vfolder, path, params.recursive);
}

Result<http::Response> NativeApi::get_archive(const Call& call, const GetArchiveParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  ASSIGN_OR_RETURN(auto archive, services_.archives.archive(call.caller, params.vfolder, path));
  http::Response response;
  response.headers.set("Content-Type", "application/x-tar");
  response.headers.set("Content-Disposition", "attachment; filename=\"archive.tar\"");
  response.stream = std::make_unique<TarStream>(std::move(archive));
  return response;
}

Result<http::Intake> NativeApi::put_archive(const Call& call, const PutArchiveParams& params) {
  ASSIGN_OR_RETURN(const backend::RelPath path, backend::RelPath::parse(params.path));
  ASSIGN_OR_RETURN(const auto xxh3, announced_xxh3(call.request.headers));
  ASSIGN_OR_RETURN(auto session,
                   services_.archives.extract(call.caller, params.vfolder, path, xxh3));
  return take_into<vfolder::ExtractSession>(
      std::move(session),
      [](vfolder::ExtractSession& open) -> Result<http::Response> {
        ASSIGN_OR_RETURN(const vfolder::Extracted extracted, open.finish());
        std::string text;
        write(text, ArchiveResult{.files = extracted.files,
                                  .directories = extracted.directories,
                                  .size_bytes = extracted.size_bytes});
        return text_response(200, "application/json", std::move(text));
      },
      [request_id = call.request.request_id](const Error& error) {
        return sent_wrongly(error, request_id);
      });
}

}  // namespace onggi::api
