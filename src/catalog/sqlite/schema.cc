#include "catalog/sqlite/schema.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace onggi::catalog {
namespace {

constexpr std::int64_t kApplicationId = 0x4f6e6767;  // "Ongg" in the file's head

// Step n brings version n to n + 1. A step that was released is never changed.
constexpr std::array<std::string_view, 1> kMigrations = {R"sql(
CREATE TABLE tenants (
  id BLOB PRIMARY KEY CHECK (length(id) = 16),
  name TEXT NOT NULL UNIQUE,
  created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  tenant BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  scope INTEGER NOT NULL CHECK (scope IN (0, 1)),
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  created INTEGER NOT NULL,
  expires INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_of_tenant ON tokens (tenant, created);

CREATE TABLE volumes (
  name TEXT PRIMARY KEY,
  backend TEXT NOT NULL,
  created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE volume_options (
  volume TEXT NOT NULL REFERENCES volumes (name) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (volume, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE vfolders (
  id BLOB PRIMARY KEY CHECK (length(id) = 16),
  volume TEXT NOT NULL,
  quota_scope BLOB NOT NULL CHECK (length(quota_scope) = 16),
  name TEXT NOT NULL,
  tenant BLOB NOT NULL REFERENCES tenants (id),
  state INTEGER NOT NULL CHECK (state IN (0, 1, 2)),
  created INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX vfolder_names ON vfolders (tenant, volume, name) WHERE state <> 2;
CREATE INDEX vfolders_of_tenant ON vfolders (tenant, name, id);
CREATE INDEX vfolders_in_state ON vfolders (state, id);
CREATE INDEX vfolders_of_volume ON vfolders (volume);

CREATE TABLE shares (
  vfolder BLOB NOT NULL REFERENCES vfolders (id) ON DELETE CASCADE,
  tenant BLOB NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  permission INTEGER NOT NULL CHECK (permission IN (0, 1)),
  created INTEGER NOT NULL,
  PRIMARY KEY (vfolder, tenant)
) STRICT, WITHOUT ROWID;
CREATE INDEX shares_of_tenant ON shares (tenant, vfolder);

CREATE TABLE uploads (
  id BLOB PRIMARY KEY CHECK (length(id) = 16),
  vfolder BLOB NOT NULL REFERENCES vfolders (id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  length INTEGER NOT NULL CHECK (length >= 0),
  xxh3 INTEGER,
  if_etag TEXT,
  if_absent INTEGER NOT NULL CHECK (if_absent IN (0, 1)),
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  etag TEXT
) STRICT;
CREATE INDEX uploads_of_vfolder ON uploads (vfolder);
CREATE INDEX uploads_unfinished ON uploads (vfolder, created, id) WHERE etag IS NULL;
CREATE INDEX uploads_by_expiry ON uploads (expires);

CREATE TABLE settings (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
)sql"};

Status check_version(Connection& connection, const std::string& path, std::int64_t version) {
  if (version > static_cast<std::int64_t>(kMigrations.size())) {
    return fail(ErrorCode::unsupported,
                fmt::format("catalog '{}' was written by a newer onggid (schema {}, this one knows "
                            "{}): upgrade onggid, or start it with the catalog that you saved "
                            "before the upgrade",
                            path, version, kMigrations.size()));
  }
  ASSIGN_OR_RETURN(const auto application, connection.pragma("application_id"));
  ASSIGN_OR_RETURN(const auto objects, connection.pragma("schema_version"));
  const bool fresh = version == 0 && application == 0 && objects == 0;
  if (!fresh && application != kApplicationId) {
    return fail(ErrorCode::unsupported,
                fmt::format("'{}' is an SQLite database but no catalog of onggid's: give the "
                            "catalog another path",
                            path));
  }
  return {};
}

Status migrate(Connection& connection, const std::string& path) {
  ASSIGN_OR_RETURN(auto transaction, Transaction::begin(connection));
  // Read again under the lock: another daemon may have migrated meanwhile.
  ASSIGN_OR_RETURN(const auto version, connection.pragma("user_version"));
  RETURN_IF_ERROR(check_version(connection, path, version));
  for (auto step = static_cast<std::size_t>(version); step < kMigrations.size(); ++step) {
    RETURN_IF_ERROR(connection.execute(std::string(kMigrations[step])));
  }
  RETURN_IF_ERROR(connection.execute(fmt::format(
      "PRAGMA user_version = {}; PRAGMA application_id = {}", kMigrations.size(), kApplicationId)));
  return transaction.commit();
}

}  // namespace

Status prepare_schema(Connection& connection, const std::string& path) {
  ASSIGN_OR_RETURN(const auto version, connection.pragma("user_version"));
  RETURN_IF_ERROR(check_version(connection, path, version));
  if (version < static_cast<std::int64_t>(kMigrations.size())) return migrate(connection, path);
  return {};
}

}  // namespace onggi::catalog
