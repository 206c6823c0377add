#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"

namespace onggi::catalog {

// Whose data it is.
struct Tenant {
  Uuid id;
  std::string name;
  UnixTime created{};
};

// What a token may do: everything, or what its tenant may.
enum class Scope : std::uint8_t { admin, tenant };

struct Token {
  std::string id;  // 16 hexadecimal digits, public
  Uuid tenant;
  std::string name;
  Scope scope = Scope::tenant;
  std::string hash;  // SHA-256 of the secret, 32 raw bytes; the secret itself is kept nowhere
  UnixTime created{};
  std::optional<UnixTime> expires;
};

struct Volume {
  std::string name;
  std::string backend;
  std::map<std::string, std::string> options;
  UnixTime created{};
};

// `creating` and `deleting` rows are seen by recovery alone; both end with folder and row gone.
enum class VFolderState : std::uint8_t { creating, active, deleting };

struct VFolder {
  Uuid id;
  std::string volume;
  Uuid quota_scope;
  std::string name;  // unique among a tenant's vfolders of one volume that are not being deleted
  Uuid tenant;       // the owner
  VFolderState state = VFolderState::active;
  UnixTime created{};
};

// Ordered: each includes those before it.
enum class Permission : std::uint8_t { read_only, read_write, owner };

struct Share {
  Uuid vfolder;
  Uuid tenant;
  Permission permission = Permission::read_only;  // never owner
  UnixTime created{};
};

// A vfolder as one tenant sees it.
struct VFolderAccess {
  VFolder vfolder;
  Permission permission = Permission::read_only;
};

// A resumable upload. Its offset is the size of its staging file and is not kept here.
struct Upload {
  Uuid id;
  Uuid vfolder;
  std::string path;
  std::uint64_t length = 0;
  std::optional<std::uint64_t> xxh3;   // of the whole, verified before it is committed
  std::optional<std::string> if_etag;  // preconditions of the commit
  bool if_absent = false;
  UnixTime created{};
  UnixTime expires{};
  std::optional<std::string> etag;  // set once committed; the row then answers repeated requests
};

// Names as in JSON: "admin", "read_only", "deleting".
std::string_view to_string(Scope scope);
std::string_view to_string(Permission permission);
std::string_view to_string(VFolderState state);
Result<Scope> parse_scope(std::string_view text);
Result<Permission> parse_permission(std::string_view text);

}  // namespace onggi::catalog
