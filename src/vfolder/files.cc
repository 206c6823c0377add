#include "vfolder/files.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/encoding.h"
#include "base/log.h"
#include "vfolder/upload_metadata.h"

namespace onggi::vfolder {
namespace {

constexpr std::size_t kPageMax = 10000;

// A cursor is the last path of the page in hexadecimal: opaque and URL-safe. It is compared, never
// opened, so what it says needs no further check.
Result<std::string> parse_cursor(std::string_view cursor) {
  auto path = hex_decode(cursor);
  if (!path) return fail(ErrorCode::invalid_argument, "the cursor is not one of ours");
  return path;
}

Status require_name(const backend::RelPath& path) {
  if (!path.is_root()) return {};
  return fail(ErrorCode::invalid_argument, "the path is empty: it means the vfolder itself");
}

}  // namespace

WriteSession::WriteSession(std::shared_ptr<backend::Folder> folder,
                           std::unique_ptr<backend::StagedFile> staged, backend::RelPath path,
                           WriteOptions options, metrics::Counter& received)
    : folder_(std::move(folder)),
      staged_(std::move(staged)),
      path_(std::move(path)),
      options_(std::move(options)),
      received_(received) {}

WriteSession::~WriteSession() {
  abandon();
}

std::span<std::byte> WriteSession::buffer() {
  buffer_ = staged_->buffer();
  return buffer_;
}

Status WriteSession::commit(std::size_t bytes) {
  CHECK(bytes <= buffer_.size());
  if (options_.xxh3) checksum_.update(buffer_.first(bytes));
  buffer_ = {};
  RETURN_IF_ERROR(staged_->commit_buffer(bytes));
  received_.add(bytes);
  return {};
}

Result<Written> WriteSession::finish() {
  if (options_.xxh3) {
    auto verified = verify_xxh3("body", checksum_.digest(), *options_.xxh3, "nothing was written");
    if (!verified) {
      abandon();
      return tl::unexpected(std::move(verified).error());
    }
  }
  Written written;
  written.created = options_.if_absent || !folder_->stat(path_);
  auto info = staged_->commit(path_, {.if_etag = options_.if_etag,
                                      .if_absent = options_.if_absent,
                                      .create_parents = true,
                                      .durable = options_.durable});
  if (!info) {
    abandon();
    return tl::unexpected(std::move(info).error());
  }
  staged_.reset();
  written.info = *std::move(info);
  return written;
}

void WriteSession::abandon() {
  if (!staged_) return;
  if (auto discarded = staged_->discard(); !discarded) {
    // Recovery collects it.
    LOG_WARN("staging left behind", {{"error", discarded.error().message()}});
  }
  staged_.reset();
}

Files::Files(VFolders& vfolders, metrics::Registry& metrics)
    : vfolders_(vfolders),
      received_(metrics.counter("onggi_received_bytes_total", "Bytes of files received",
                                {{"way", "put"}})) {}

Result<backend::FileInfo> Files::stat(const Principal& caller, const Uuid& vfolder,
                                      const backend::RelPath& path) {
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open(caller, vfolder, Access::read));
  return folder->stat(path);
}

Result<EntryPage> Files::list(const Principal& caller, const Uuid& vfolder,
                              const backend::RelPath& path, const ListRequest& request) {
  if (request.limit == 0 || request.limit > kPageMax) {
    return fail(ErrorCode::invalid_argument, fmt::format("limit must be 1 to {}", kPageMax));
  }
  ASSIGN_OR_RETURN(auto after, parse_cursor(request.cursor));
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open(caller, vfolder, Access::read));
  ASSIGN_OR_RETURN(auto listed, folder->list(path, {.after = std::move(after),
                                                    .limit = request.limit,
                                                    .recursive = request.recursive}));
  EntryPage page;
  page.items = std::move(listed.entries);
  if (listed.more && !page.items.empty()) {
    page.next_cursor = hex_encode(as_bytes(page.items.back().path));
  }
  return page;
}

Result<OpenFile> Files::open(const Principal& caller, const Uuid& vfolder,
                             const backend::RelPath& path) {
  OpenFile file;
  ASSIGN_OR_RETURN(file.folder, vfolders_.open(caller, vfolder, Access::read));
  ASSIGN_OR_RETURN(file.handle, file.folder->open(path));
  return file;
}

Result<std::unique_ptr<WriteSession>> Files::write(const Principal& caller, const Uuid& vfolder,
                                                   const backend::RelPath& path,
                                                   const WriteOptions& options) {
  RETURN_IF_ERROR(require_name(path));
  ASSIGN_OR_RETURN(auto folder, vfolders_.open(caller, vfolder, Access::write));
  ASSIGN_OR_RETURN(auto staged, folder->stage(Uuid::random(), true, options.size_hint));
  return std::make_unique<WriteSession>(std::move(folder), std::move(staged), path, options,
                                        received_);
}

Result<backend::FileInfo> Files::make_directory(const Principal& caller, const Uuid& vfolder,
                                                const backend::RelPath& path, bool parents) {
  RETURN_IF_ERROR(require_name(path));
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open(caller, vfolder, Access::write));
  RETURN_IF_ERROR(folder->make_directory(path, parents));
  return folder->stat(path);
}

Result<backend::FileInfo> Files::move(const Principal& caller, const Uuid& vfolder,
                                      const backend::RelPath& from, const backend::RelPath& to,
                                      const backend::MoveOptions& options) {
  RETURN_IF_ERROR(require_name(from));
  RETURN_IF_ERROR(require_name(to));
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open(caller, vfolder, Access::write));
  RETURN_IF_ERROR(folder->move(from, to, options));
  return folder->stat(to);
}

Status Files::remove(const Principal& caller, const Uuid& vfolder, const backend::RelPath& path,
                     bool recursive) {
  RETURN_IF_ERROR(require_name(path));
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open(caller, vfolder, Access::write));
  return folder->remove(path, recursive);
}

}  // namespace onggi::vfolder
