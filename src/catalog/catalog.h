#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"
#include "catalog/records.h"

namespace onggi::catalog {

// The catalog: names, owners, shares, tokens and upload sessions, durable once a call returns.
// One small interface per kind of record. Every method is one transaction, thread-safe, and blocks.
// Errors: not_found, already_exists (a name is taken), conflict (something still refers to it),
// unavailable (locked or busy), storage_full, corruption, internal. No method checks permissions.

class Tenants {
 public:
  virtual ~Tenants() = default;
  virtual Status insert(const Tenant& tenant) = 0;  // already_exists: the name
  virtual Result<Tenant> get(const Uuid& id) = 0;
  virtual Result<Tenant> find(std::string_view name) = 0;
  virtual Result<std::vector<Tenant>> list() = 0;  // by name
  // Takes its tokens and the shares given to it along; conflict while it owns vfolders.
  virtual Status remove(const Uuid& id) = 0;
};

class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual Status insert(const Token& token) = 0;  // not_found: the tenant
  virtual Result<Token> get(std::string_view id) = 0;
  virtual Result<std::vector<Token>> list(const Uuid& tenant) = 0;  // by creation
  virtual Status remove(std::string_view id) = 0;
};

// Volumes added at run time; those of the configuration are not here.
class Volumes {
 public:
  virtual ~Volumes() = default;
  virtual Status insert(const Volume& volume) = 0;
  virtual Result<std::vector<Volume>> list() = 0;    // by name
  virtual Status remove(std::string_view name) = 0;  // conflict while a vfolder lies on it
};

// Which of a tenant's vfolders, own and shared, to list; in order of (name, id).
struct VFolderQuery {
  Uuid tenant;
  std::optional<std::string> volume;
  std::optional<std::string> name;
  std::optional<std::pair<std::string, Uuid>> after;  // exclusive: the last one of the page before
  std::size_t limit = 1000;
};

class VFolders {
 public:
  virtual ~VFolders() = default;
  virtual Status insert(const VFolder& vfolder) = 0;  // already_exists: the name
  // As `tenant` sees it; not_found when it is not active, or neither owned nor shared.
  virtual Result<VFolderAccess> get(const Uuid& id, const Uuid& tenant) = 0;
  virtual Result<VFolder> find(const Uuid& id) = 0;  // in any state, for recovery
  virtual Result<std::vector<VFolderAccess>> list(const VFolderQuery& query) = 0;
  virtual Status rename(const Uuid& id, std::string_view name) = 0;
  virtual Status set_state(const Uuid& id, VFolderState state) = 0;
  // Takes its shares and uploads along.
  virtual Status remove(const Uuid& id) = 0;
  // Of every tenant, for recovery; in order of id, those after `after`.
  virtual Result<std::vector<VFolder>> in_state(VFolderState state, const Uuid& after,
                                                std::size_t limit) = 0;
};

class Shares {
 public:
  virtual ~Shares() = default;
  virtual Status put(const Share& share) = 0;  // replaces; not_found: vfolder or tenant
  virtual Status remove(const Uuid& vfolder, const Uuid& tenant) = 0;
  virtual Result<std::vector<Share>> list(const Uuid& vfolder) = 0;
};

class Uploads {
 public:
  virtual ~Uploads() = default;
  virtual Status insert(const Upload& upload) = 0;  // not_found: the vfolder
  virtual Result<Upload> get(const Uuid& id) = 0;
  virtual Result<std::vector<Upload>> list(const Uuid& vfolder) = 0;  // those not committed
  virtual Result<std::size_t> count(const Uuid& vfolder) = 0;         // of the same
  virtual Result<std::vector<Upload>> expired(UnixTime now, std::size_t limit) = 0;
  // Marks it committed as `etag`.
  virtual Status complete(const Uuid& id, std::string_view etag, UnixTime expires) = 0;
  virtual Status extend(const Uuid& id, UnixTime expires) = 0;
  virtual Status remove(const Uuid& id) = 0;
};

// Small values the daemon itself keeps, such as the secret that signs transfer tokens.
class Settings {
 public:
  virtual ~Settings() = default;
  virtual Result<std::string> get(std::string_view name) = 0;
  // Stores `value` unless there is one; returns the one that is there now. Settles races of
  // daemons.
  virtual Result<std::string> put_if_absent(std::string_view name, std::string_view value) = 0;
};

class Catalog {
 public:
  virtual ~Catalog() = default;
  virtual Tenants& tenants() = 0;
  virtual Tokens& tokens() = 0;
  virtual Volumes& volumes() = 0;
  virtual VFolders& vfolders() = 0;
  virtual Shares& shares() = 0;
  virtual Uploads& uploads() = 0;
  virtual Settings& settings() = 0;
};

}  // namespace onggi::catalog
