#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

#include "catalog/sqlite/stores.h"

namespace onggi::catalog {
namespace {

Upload read_upload(const Statement& row) {
  Upload upload{.id = row.uuid(0),
                .vfolder = row.uuid(1),
                .path = row.text(2),
                .length = static_cast<std::uint64_t>(row.integer(3)),
                .xxh3 = {},
                .if_etag = {},
                .if_absent = row.integer(6) != 0,
                .created = row.time(7),
                .expires = row.time(8),
                .etag = {}};
  if (!row.is_null(4)) upload.xxh3 = std::bit_cast<std::uint64_t>(row.integer(4));
  if (!row.is_null(5)) upload.if_etag = row.text(5);
  if (!row.is_null(9)) upload.etag = row.text(9);
  return upload;
}

Result<std::vector<Upload>> read_all(Statement& statement) {
  std::vector<Upload> uploads;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) return uploads;
    uploads.push_back(read_upload(statement));
  }
}

}  // namespace

Status SqliteUploads::insert(const Upload& upload) {
  if (upload.length > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return fail(ErrorCode::too_large, "the upload's length is over 2^63 - 1 bytes");
  }
  std::optional<std::int64_t> xxh3;
  if (upload.xxh3) xxh3 = std::bit_cast<std::int64_t>(*upload.xxh3);
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("INSERT INTO uploads (id, vfolder, path, length, xxh3, if_etag, "
                                   "if_absent, created, expires, etag) "
                                   "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  auto status =
      statement
          .bind(upload.id, upload.vfolder, upload.path, static_cast<std::int64_t>(upload.length),
                xxh3, upload.if_etag, std::int64_t{upload.if_absent ? 1 : 0}, upload.created,
                upload.expires, upload.etag)
          .run();
  if (!status && status.error().code() == ErrorCode::conflict) {
    return fail(ErrorCode::not_found, "no such vfolder");
  }
  if (!status && status.error().code() == ErrorCode::already_exists) {
    return fail(ErrorCode::already_exists, "the upload exists already");
  }
  return status;
}

Result<Upload> SqliteUploads::get(const Uuid& id) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, vfolder, path, length, xxh3, if_etag, if_absent, "
                                   "created, expires, etag FROM uploads WHERE id = ?"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(id).step());
  if (!found) return fail(ErrorCode::not_found, "no such upload");
  return read_upload(statement);
}

Result<std::vector<Upload>> SqliteUploads::list(const Uuid& vfolder) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, vfolder, path, length, xxh3, if_etag, if_absent, "
                                   "created, expires, etag FROM uploads "
                                   "WHERE vfolder = ? AND etag IS NULL "
                                   "ORDER BY created, id"));
  return read_all(statement.bind(vfolder));
}

Result<std::size_t> SqliteUploads::count(const Uuid& vfolder) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement, reader->prepare("SELECT COUNT(*) FROM uploads "
                                                   "WHERE vfolder = ? AND etag IS NULL"));
  ASSIGN_OR_RETURN([[maybe_unused]] const bool row, statement.bind(vfolder).step());
  return static_cast<std::size_t>(statement.integer(0));
}

Result<std::vector<Upload>> SqliteUploads::expired(UnixTime now, std::size_t limit) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, vfolder, path, length, xxh3, if_etag, if_absent, "
                                   "created, expires, etag FROM uploads WHERE expires <= ? "
                                   "ORDER BY expires LIMIT ?"));
  return read_all(statement.bind(now, static_cast<std::int64_t>(limit)));
}

Status SqliteUploads::complete(const Uuid& id, std::string_view etag, UnixTime expires) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("UPDATE uploads SET etag = ?, expires = ? WHERE id = ?"));
  return statement.bind(etag, expires, id).run_on_one("upload");
}

Status SqliteUploads::extend(const Uuid& id, UnixTime expires) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement, writer->prepare("UPDATE uploads SET expires = ? WHERE id = ?"));
  return statement.bind(expires, id).run_on_one("upload");
}

Status SqliteUploads::remove(const Uuid& id) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement, writer->prepare("DELETE FROM uploads WHERE id = ?"));
  return statement.bind(id).run_on_one("upload");
}

}  // namespace onggi::catalog
