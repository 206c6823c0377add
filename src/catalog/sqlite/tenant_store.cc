#include <utility>

#include "catalog/sqlite/stores.h"

namespace onggi::catalog {
namespace {

Tenant read_tenant(const Statement& row) {
  return {.id = row.uuid(0), .name = row.text(1), .created = row.time(2)};
}

Token read_token(const Statement& row) {
  Token token{.id = row.text(0),
              .tenant = row.uuid(1),
              .name = row.text(2),
              .scope = row.integer(3) == 0 ? Scope::admin : Scope::tenant,
              .hash = row.text(4),
              .created = row.time(5),
              .expires = {}};
  if (!row.is_null(6)) token.expires = row.time(6);
  return token;
}

Result<Tenant> one_tenant(Statement& statement) {
  ASSIGN_OR_RETURN(const bool found, statement.step());
  if (!found) return fail(ErrorCode::not_found, "no such tenant");
  return read_tenant(statement);
}

}  // namespace

Status SqliteTenants::insert(const Tenant& tenant) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("INSERT INTO tenants (id, name, created) VALUES (?, ?, ?)"));
  auto status = statement.bind(tenant.id, tenant.name, tenant.created).run();
  if (!status && status.error().code() == ErrorCode::already_exists) {
    return fail(ErrorCode::already_exists, "a tenant of this name exists");
  }
  return status;
}

Result<Tenant> SqliteTenants::get(const Uuid& id) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, name, created FROM tenants WHERE id = ?"));
  return one_tenant(statement.bind(id));
}

Result<Tenant> SqliteTenants::find(std::string_view name) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, name, created FROM tenants WHERE name = ?"));
  return one_tenant(statement.bind(name));
}

Result<std::vector<Tenant>> SqliteTenants::list() {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, name, created FROM tenants ORDER BY name"));
  std::vector<Tenant> tenants;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) return tenants;
    tenants.push_back(read_tenant(statement));
  }
}

Status SqliteTenants::remove(const Uuid& id) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement, writer->prepare("DELETE FROM tenants WHERE id = ?"));
  auto status = statement.bind(id).run_on_one("tenant");
  if (!status && status.error().code() == ErrorCode::conflict) {
    return fail(ErrorCode::conflict, "the tenant still owns vfolders: delete them first");
  }
  return status;
}

Status SqliteTokens::insert(const Token& token) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement,
                   writer->prepare("INSERT INTO tokens (id, tenant, name, scope, hash, created, "
                                   "expires) VALUES (?, ?, ?, ?, ?, ?, ?)"));
  const std::int64_t scope = token.scope == Scope::admin ? 0 : 1;
  auto status = statement
                    .bind(token.id, token.tenant, token.name, scope, Blob{token.hash},
                          token.created, token.expires)
                    .run();
  if (!status && status.error().code() == ErrorCode::conflict) {
    return fail(ErrorCode::not_found, "no such tenant");
  }
  return status;
}

Result<Token> SqliteTokens::get(std::string_view id) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, tenant, name, scope, hash, created, expires "
                                   "FROM tokens WHERE id = ?"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(id).step());
  if (!found) return fail(ErrorCode::not_found, "no such token");
  return read_token(statement);
}

Result<std::vector<Token>> SqliteTokens::list(const Uuid& tenant) {
  const auto reader = database_.reader();
  ASSIGN_OR_RETURN(auto statement,
                   reader->prepare("SELECT id, tenant, name, scope, hash, created, expires "
                                   "FROM tokens WHERE tenant = ? ORDER BY created, id"));
  statement.bind(tenant);
  std::vector<Token> tokens;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) return tokens;
    tokens.push_back(read_token(statement));
  }
}

Status SqliteTokens::remove(std::string_view id) {
  const auto writer = database_.writer();
  ASSIGN_OR_RETURN(auto statement, writer->prepare("DELETE FROM tokens WHERE id = ?"));
  return statement.bind(id).run_on_one("token");
}

}  // namespace onggi::catalog
