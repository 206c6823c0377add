#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"
#include "catalog/catalog.h"
#include "vfolder/principal.h"
#include "vfolder/volumes.h"

namespace onggi::vfolder {

struct VFolderRequest {
  std::string volume;
  std::string name;
  std::optional<Uuid> quota_scope;  // the tenant's id unless given; another needs an admin
  std::uint32_t mode = 0750;
};

struct VFolderFilter {
  std::optional<std::string> volume;
  std::optional<std::string> name;
  std::string cursor;  // from the page before
  std::size_t limit = 1000;
};

struct VFolderPage {
  std::vector<catalog::VFolderAccess> items;
  std::string next_cursor;  // empty on the last page
};

// What the caller wants to do; each needs the share permission of that strength.
enum class Access : std::uint8_t { read, write, own };

struct VFoldersOptions {
  std::size_t open_max = 1024;  // folders kept open
};

// The vfolders of all tenants: made, found, renamed, deleted, shared. A vfolder that is missing and
// one that belongs to a stranger give the same not_found. A share too weak for what is asked gives
// permission_denied. Thread-safe; the references must outlive it.
class VFolders {
 public:
  VFolders(catalog::Catalog& catalog, Volumes& volumes, Clock& clock, VFoldersOptions options = {});
  ~VFolders();
  VFolders(const VFolders&) = delete;
  VFolders& operator=(const VFolders&) = delete;
  VFolders(VFolders&&) = delete;
  VFolders& operator=(VFolders&&) = delete;

  Result<catalog::VFolderAccess> create(const Principal& caller, const VFolderRequest& request);
  Result<catalog::VFolderAccess> get(const Principal& caller, const Uuid& id);
  Result<VFolderPage> list(const Principal& caller, const VFolderFilter& filter);
  Result<catalog::VFolderAccess> rename(const Principal& caller, const Uuid& id,
                                        std::string_view name);
  // Gone for everybody once this returns. If the storage fails half-way, recovery finishes it.
  Status remove(const Principal& caller, const Uuid& id);
  Result<backend::Usage> usage(const Principal& caller, const Uuid& id);

  // The open folder, after the permission check. Shared, because the cache may drop it and a
  // request may outlast the vfolder; it keeps its backend alive.
  Result<std::shared_ptr<backend::Folder>> open(const Principal& caller, const Uuid& id,
                                                Access access);

  // `tenant` is a name or an id; an unknown one looks like a missing vfolder.
  Result<catalog::Share> share(const Principal& caller, const Uuid& id, std::string_view tenant,
                               catalog::Permission permission);
  Status unshare(const Principal& caller, const Uuid& id, std::string_view tenant);
  Result<std::vector<catalog::Share>> shares(const Principal& caller, const Uuid& id);

  // For recovery: finishes the removal of `vfolder`, whatever its state, and opens one without a
  // permission check.
  Status finish_removal(const catalog::VFolder& vfolder);
  Result<std::shared_ptr<backend::Folder>> open_unchecked(const catalog::VFolder& vfolder);

 private:
  class Cache;

  Result<catalog::VFolderAccess> check(const Principal& caller, const Uuid& id, Access access);
  Result<Uuid> find_tenant(std::string_view text);

  catalog::Catalog& catalog_;
  Volumes& volumes_;
  Clock& clock_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace onggi::vfolder
