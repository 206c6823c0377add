#include <cstdint>
#include <utility>

#include "catalog/sqlite/stores.h"

namespace onggi::catalog {
namespace {

VFolder read_vfolder(const Statement& row) {
  return {.id = row.uuid(0),
          .volume = row.text(1),
          .quota_scope = row.uuid(2),
          .name = row.text(3),
          .tenant = row.uuid(4),
          .state = static_cast<VFolderState>(row.integer(5)),  // the schema checks its range
          .created = row.time(6)};
}

VFolderAccess read_access(const Statement& row) {
  return {.vfolder = read_vfolder(row), .permission = static_cast<Permission>(row.integer(7))};
}

std::int64_t number(VFolderState state) {
  return static_cast<std::int64_t>(state);
}

Status name_taken(Status status) {
  if (!status && status.error().code() == ErrorCode::already_exists) {
    return fail(ErrorCode::already_exists, "a vfolder of this name exists on the volume");
  }
  return status;
}

}  // namespace

Status SqliteVFolders::insert(const VFolder& vfolder) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("INSERT INTO vfolders (id, volume, quota_scope, name, tenant, "
                                   "state, created) VALUES (?, ?, ?, ?, ?, ?, ?)"));
  auto status = statement
                    .bind(vfolder.id, vfolder.volume, vfolder.quota_scope, vfolder.name,
                          vfolder.tenant, number(vfolder.state), vfolder.created)
                    .run();
  if (!status && status.error().code() == ErrorCode::conflict) {
    return fail(ErrorCode::not_found, "no such tenant");
  }
  return name_taken(std::move(status));
}

Result<VFolderAccess> SqliteVFolders::get(const Uuid& id, const Uuid& tenant) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(
      auto statement,
      reader->prepare("SELECT v.id, v.volume, v.quota_scope, v.name, v.tenant, v.state, v.created, "
                      "CASE WHEN v.tenant = ?2 THEN 2 ELSE s.permission END "
                      "FROM vfolders v "
                      "LEFT JOIN shares s ON s.vfolder = v.id AND s.tenant = ?2 "
                      "WHERE v.id = ?1 AND v.state = 1 "
                      "AND (v.tenant = ?2 OR s.permission IS NOT NULL)"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(id, tenant).step());
  if (!found) return fail(ErrorCode::not_found, "no such vfolder");
  return read_access(statement);
}

Result<VFolder> SqliteVFolders::find(const Uuid& id) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, volume, quota_scope, name, tenant, state, created "
                                   "FROM vfolders WHERE id = ?"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(id).step());
  if (!found) return fail(ErrorCode::not_found, "no such vfolder");
  return read_vfolder(statement);
}

Result<std::vector<VFolderAccess>> SqliteVFolders::list(const VFolderQuery& query) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(
      auto statement,
      reader->prepare(
          "SELECT v.id, v.volume, v.quota_scope, v.name AS name, v.tenant, v.state, v.created, 2 "
          "FROM vfolders v WHERE v.tenant = ?1 AND v.state = 1 "
          "AND (?2 IS NULL OR v.volume = ?2) AND (?3 IS NULL OR v.name = ?3) "
          "AND (?4 IS NULL OR (v.name, v.id) > (?4, ?5)) "
          "UNION ALL "
          "SELECT v.id, v.volume, v.quota_scope, v.name, v.tenant, v.state, v.created, "
          "s.permission "
          "FROM shares s JOIN vfolders v ON v.id = s.vfolder "
          "WHERE s.tenant = ?1 AND v.tenant <> ?1 AND v.state = 1 "
          "AND (?2 IS NULL OR v.volume = ?2) AND (?3 IS NULL OR v.name = ?3) "
          "AND (?4 IS NULL OR (v.name, v.id) > (?4, ?5)) "
          "ORDER BY 4, 1 LIMIT ?6"));
  std::optional<std::string> after_name;
  Uuid after_id;
  if (query.after) {
    after_name = query.after->first;
    after_id = query.after->second;
  }
  statement.bind(query.tenant, query.volume, query.name, after_name, after_id,
                 static_cast<std::int64_t>(query.limit));
  std::vector<VFolderAccess> found;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) return found;
    found.push_back(read_access(statement));
  }
}

Status SqliteVFolders::rename(const Uuid& id, std::string_view name) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("UPDATE vfolders SET name = ? WHERE id = ? AND state = 1"));
  return name_taken(statement.bind(name, id).run_on_one("vfolder"));
}

Status SqliteVFolders::set_state(const Uuid& id, VFolderState state) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement, writer->prepare("UPDATE vfolders SET state = ? WHERE id = ?"));
  return statement.bind(number(state), id).run_on_one("vfolder");
}

Status SqliteVFolders::remove(const Uuid& id) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement, writer->prepare("DELETE FROM vfolders WHERE id = ?"));
  return statement.bind(id).run_on_one("vfolder");
}

Result<std::vector<VFolder>> SqliteVFolders::in_state(VFolderState state, const Uuid& after,
                                                      std::size_t limit) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, volume, quota_scope, name, tenant, state, created "
                                   "FROM vfolders WHERE state = ? AND id > ? ORDER BY id LIMIT ?"));
  statement.bind(number(state), after, static_cast<std::int64_t>(limit));
  std::vector<VFolder> found;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) return found;
    found.push_back(read_vfolder(statement));
  }
}

Status SqliteShares::put(const Share& share) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("INSERT INTO shares (vfolder, tenant, permission, created) "
                                   "VALUES (?, ?, ?, ?) ON CONFLICT (vfolder, tenant) "
                                   "DO UPDATE SET permission = excluded.permission"));
  auto status = statement
                    .bind(share.vfolder, share.tenant, static_cast<std::int64_t>(share.permission),
                          share.created)
                    .run();
  if (!status && status.error().code() == ErrorCode::conflict) {
    return fail(ErrorCode::not_found, "no such vfolder or tenant");
  }
  return status;
}

Status SqliteShares::remove(const Uuid& vfolder, const Uuid& tenant) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("DELETE FROM shares WHERE vfolder = ? AND tenant = ?"));
  return statement.bind(vfolder, tenant).run_on_one("share");
}

Result<std::vector<Share>> SqliteShares::list(const Uuid& vfolder) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT vfolder, tenant, permission, created FROM shares "
                                   "WHERE vfolder = ? ORDER BY created, tenant"));
  statement.bind(vfolder);
  std::vector<Share> shares;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) return shares;
    shares.push_back({.vfolder = statement.uuid(0),
                      .tenant = statement.uuid(1),
                      .permission = static_cast<Permission>(statement.integer(2)),
                      .created = statement.time(3)});
  }
}

}  // namespace onggi::catalog
