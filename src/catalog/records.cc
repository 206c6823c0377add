#include "catalog/records.h"

#include <fmt/format.h>

namespace onggi::catalog {

std::string_view to_string(Scope scope) {
  return scope == Scope::admin ? "admin" : "tenant";
}

std::string_view to_string(Permission permission) {
  switch (permission) {
    case Permission::read_only:
      return "read_only";
    case Permission::read_write:
      return "read_write";
    case Permission::owner:
      return "owner";
  }
  return "read_only";
}

std::string_view to_string(VFolderState state) {
  switch (state) {
    case VFolderState::creating:
      return "creating";
    case VFolderState::active:
      return "active";
    case VFolderState::deleting:
      return "deleting";
  }
  return "deleting";
}

Result<Scope> parse_scope(std::string_view text) {
  if (text == "admin") return Scope::admin;
  if (text == "tenant") return Scope::tenant;
  return fail(ErrorCode::invalid_argument,
              fmt::format("scope '{}' is neither 'admin' nor 'tenant'", text));
}

Result<Permission> parse_permission(std::string_view text) {
  if (text == "read_only") return Permission::read_only;
  if (text == "read_write") return Permission::read_write;
  return fail(ErrorCode::invalid_argument,
              fmt::format("permission '{}' is neither 'read_only' nor 'read_write'", text));
}

}  // namespace onggi::catalog
