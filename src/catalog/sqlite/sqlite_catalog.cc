#include "catalog/sqlite/sqlite_catalog.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file_descriptor.h"
#include "catalog/sqlite/database.h"
#include "catalog/sqlite/schema.h"
#include "catalog/sqlite/stores.h"

namespace onggi::catalog {
namespace {

class SqliteCatalog final : public Catalog {
 public:
  SqliteCatalog(std::unique_ptr<Connection> writer,
                std::vector<std::unique_ptr<Connection>> readers)
      : database_(std::move(writer), std::move(readers)) {}

  Tenants& tenants() override { return tenants_; }
  Tokens& tokens() override { return tokens_; }
  Volumes& volumes() override { return volumes_; }
  VFolders& vfolders() override { return vfolders_; }
  Shares& shares() override { return shares_; }
  Uploads& uploads() override { return uploads_; }
  Settings& settings() override { return settings_; }

 private:
  Database database_;
  SqliteTenants tenants_{database_};
  SqliteTokens tokens_{database_};
  SqliteVolumes volumes_{database_};
  SqliteVFolders vfolders_{database_};
  SqliteShares shares_{database_};
  SqliteUploads uploads_{database_};
  SqliteSettings settings_{database_};
};

// The database holds secrets, so it is made unreadable to others before SQLite opens it; the WAL
// gets the same mode.
Status make_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) {
    return fail_errno(fmt::format(
        "catalog '{}' cannot be opened: make its folder writable for onggid, or give another path",
        path));
  }
  return {};
}

// Explains what an administrator can do.
Error explain(Error error, const std::string& path) {
  switch (error.code()) {
    case ErrorCode::corruption:
      return {ErrorCode::corruption,
              fmt::format("catalog '{}' is damaged or no database: restore a backup of it, or "
                          "move it away to start empty (the files in the volumes stay) ({})",
                          path, error.message())};
    case ErrorCode::unavailable:
      return Error(
          ErrorCode::unavailable,
          fmt::format("catalog '{}' is locked by another process: stop the other onggid or "
                      "the tool that has it open ({})",
                      path, error.message()));
    case ErrorCode::storage_full:
      return {ErrorCode::storage_full,
              fmt::format("catalog '{}': the disk is full: free some space ({})", path,
                          error.message())};
    default:
      return error;
  }
}

Status check_soundness(Connection& connection) {
  ASSIGN_OR_RETURN(auto statement, connection.prepare("PRAGMA quick_check(1)"));
  ASSIGN_OR_RETURN(const bool row, statement.step());
  const std::string answer = row ? statement.text(0) : "no answer";
  if (answer != "ok") return fail(ErrorCode::corruption, answer);
  return {};
}

// WAL, so that readers and the writer don't wait for each other. FULL, because the catalog is the
// truth: NORMAL would lose the last commits in a power cut, and a vfolder or a revoked token with
// them. A commit costs one fsync; everything on the hot path is a read.
Status configure(Connection& connection) {
  return connection.execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; "
      "PRAGMA trusted_schema = OFF; PRAGMA cache_size = -2048");
}

Result<std::unique_ptr<Catalog>> open_all(const SqliteOptions& options) {
  RETURN_IF_ERROR(make_file(options.path));
  ASSIGN_OR_RETURN(auto writer, Connection::open(options.path, options.busy));
  RETURN_IF_ERROR(configure(*writer));
  RETURN_IF_ERROR(check_soundness(*writer));
  RETURN_IF_ERROR(prepare_schema(*writer, options.path));
  std::vector<std::unique_ptr<Connection>> readers;
  for (std::size_t i = 0; i < std::max<std::size_t>(options.readers, 1); ++i) {
    ASSIGN_OR_RETURN(auto reader, Connection::open(options.path, options.busy));
    RETURN_IF_ERROR(configure(*reader));
    RETURN_IF_ERROR(reader->execute("PRAGMA query_only = ON"));
    readers.push_back(std::move(reader));
  }
  return std::make_unique<SqliteCatalog>(std::move(writer), std::move(readers));
}

}  // namespace

Result<std::unique_ptr<Catalog>> open_sqlite_catalog(const SqliteOptions& options) {
  auto catalog = open_all(options);
  if (!catalog) return tl::unexpected(explain(std::move(catalog).error(), options.path));
  return catalog;
}

}  // namespace onggi::catalog
