#include "vfolder/vfolders.h"

#include <algorithm>
#include <list>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/encoding.h"
#include "base/log.h"
#include "base/mutex.h"
#include "vfolder/names.h"

namespace onggi::vfolder {
namespace {

constexpr std::size_t kPageMax = 10000;

tl::unexpected<Error> no_such_vfolder() {
  return fail(ErrorCode::not_found, "no such vfolder");
}

backend::FolderId address(const catalog::VFolder& vfolder) {
  return {.quota_scope = vfolder.quota_scope, .id = vfolder.id};
}

catalog::Permission needed(Access access) {
  switch (access) {
    case Access::read:
      return catalog::Permission::read_only;
    case Access::write:
      return catalog::Permission::read_write;
    case Access::own:
      return catalog::Permission::owner;
  }
  return catalog::Permission::owner;
}

// A cursor is the last row's id and name in hexadecimal: opaque, URL-safe, and checked on return.
std::string make_cursor(const catalog::VFolder& last) {
  return last.id.hex() + hex_encode(as_bytes(last.name));
}

Result<std::pair<std::string, Uuid>> parse_cursor(std::string_view cursor) {
  constexpr std::size_t kIdDigits = 32;
  if (cursor.size() > kIdDigits) {
    const auto id = Uuid::parse(cursor.substr(0, kIdDigits));
    auto name = hex_decode(cursor.substr(kIdDigits));
    if (id && name) return std::pair(*std::move(name), *id);
  }
  return fail(ErrorCode::invalid_argument, "the cursor is not one of ours");
}

// An open folder with what it needs to stay open.
struct OpenFolder {
  std::shared_ptr<backend::Backend> backend;  // outlives folder
  std::unique_ptr<backend::Folder> folder;
};

}  // namespace

// Open folders by id, the least recently used going first.
class VFolders::Cache {
 public:
  explicit Cache(std::size_t max) : max_(std::max<std::size_t>(max, 1)) {}

  std::shared_ptr<backend::Folder> find(const Uuid& id) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  // Changes with every drop(): a folder opened before one must not be kept after it.
  std::uint64_t drops() const EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    return drops_;
  }

  void put(const Uuid& id, std::shared_ptr<backend::Folder> folder, std::uint64_t drops)
      EXCLUDES_LOCK(mutex_) {
    std::shared_ptr<backend::Folder> evicted;  // closed after the lock is gone
    const MutexLock lock(mutex_);
    if (drops != drops_ || entries_.contains(id)) return;
    order_.emplace_front(id, std::move(folder));
    entries_.emplace(id, order_.begin());
    if (order_.size() <= max_) return;
    entries_.erase(order_.back().first);
    evicted = std::move(order_.back().second);
    order_.pop_back();
  }

  void drop(const Uuid& id) EXCLUDES_LOCK(mutex_) {
    std::shared_ptr<backend::Folder> dropped;
    const MutexLock lock(mutex_);
    ++drops_;
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    dropped = std::move(found->second->second);
    order_.erase(found->second);
    entries_.erase(found);
  }

 private:
  using Order = std::list<std::pair<Uuid, std::shared_ptr<backend::Folder>>>;

  const std::size_t max_;
  mutable Mutex mutex_;
  Order order_ GUARDED_BY(mutex_);
  std::unordered_map<Uuid, Order::iterator> entries_ GUARDED_BY(mutex_);
  std::uint64_t drops_ GUARDED_BY(mutex_) = 0;
};

VFolders::VFolders(catalog::Catalog& catalog, Volumes& volumes, Clock& clock,
                   VFoldersOptions options)
    : catalog_(catalog),
      volumes_(volumes),
      clock_(clock),
      cache_(std::make_unique<Cache>(options.open_max)) {}

VFolders::~VFolders() = default;

Result<catalog::VFolderAccess> VFolders::create(const Principal& caller,
                                                const VFolderRequest& request) {
  RETURN_IF_ERROR(check_vfolder_name(request.name));
  const Uuid quota_scope = request.quota_scope.value_or(caller.tenant);
  if (quota_scope != caller.tenant && !caller.is_admin()) {
    return fail(ErrorCode::permission_denied,
                "a quota scope other than the tenant's own needs a token of scope admin");
  }
  ASSIGN_OR_RETURN(const auto backend, volumes_.backend(request.volume));
  catalog::VFolder vfolder{.id = Uuid::random(),
                           .volume = request.volume,
                           .quota_scope = quota_scope,
                           .name = request.name,
                           .tenant = caller.tenant,
                           .state = catalog::VFolderState::creating,
                           .created = clock_.now()};
  // The row comes first: a crash before the folder is ready leaves a row that recovery removes,
  // never a folder that nobody knows.
  RETURN_IF_ERROR(catalog_.vfolders().insert(vfolder));
  auto made = backend->create_folder(address(vfolder), request.mode);
  if (made) made = catalog_.vfolders().set_state(vfolder.id, catalog::VFolderState::active);
  if (!made) {
    if (auto undone = finish_removal(vfolder); !undone) {
      LOG_WARN("vfolder half made",
               {{"vfolder", vfolder.id.to_string()}, {"error", undone.error().message()}});
    }
    return tl::unexpected(std::move(made).error());
  }
  vfolder.state = catalog::VFolderState::active;
  return catalog::VFolderAccess{.vfolder = std::move(vfolder),
                                .permission = catalog::Permission::owner};
}

Result<catalog::VFolderAccess> VFolders::check(const Principal& caller, const Uuid& id,
                                               Access access) {
  ASSIGN_OR_RETURN(auto found, catalog_.vfolders().get(id, caller.tenant));
  if (found.permission < needed(access)) {
    return fail(ErrorCode::permission_denied,
                access == Access::own ? "only the tenant that owns the vfolder may do this"
                                      : "the vfolder is shared with you read-only");
  }
  return found;
}

Result<catalog::VFolderAccess> VFolders::get(const Principal& caller, const Uuid& id) {
  return check(caller, id, Access::read);
}

Result<VFolderPage> VFolders::list(const Principal& caller, const VFolderFilter& filter) {
  if (filter.limit == 0 || filter.limit > kPageMax) {
    return fail(ErrorCode::invalid_argument, fmt::format("limit must be 1 to {}", kPageMax));
  }
  catalog::VFolderQuery query{.tenant = caller.tenant,
                              .volume = filter.volume,
                              .name = filter.name,
                              .after = {},
                              .limit = filter.limit + 1};  // one more tells whether there is more
  if (!filter.cursor.empty()) {
    ASSIGN_OR_RETURN(auto after, parse_cursor(filter.cursor));
    query.after = std::move(after);
  }
  VFolderPage page;
  ASSIGN_OR_RETURN(page.items, catalog_.vfolders().list(query));
  if (page.items.size() > filter.limit) {
    page.items.pop_back();
    page.next_cursor = make_cursor(page.items.back().vfolder);
  }
  return page;
}

Result<catalog::VFolderAccess> VFolders::rename(const Principal& caller, const Uuid& id,
                                                std::string_view name) {
  RETURN_IF_ERROR(check(caller, id, Access::own));
  RETURN_IF_ERROR(check_vfolder_name(name));
  auto renamed = catalog_.vfolders().rename(id, name);
  if (!renamed && renamed.error().code() == ErrorCode::not_found) return no_such_vfolder();
  RETURN_IF_ERROR(renamed);
  return check(caller, id, Access::own);
}

Status VFolders::remove(const Principal& caller, const Uuid& id) {
  ASSIGN_OR_RETURN(auto found, check(caller, id, Access::own));
  RETURN_IF_ERROR(catalog_.vfolders().set_state(id, catalog::VFolderState::deleting));
  found.vfolder.state = catalog::VFolderState::deleting;
  if (auto finished = finish_removal(found.vfolder); !finished) {
    // Nobody sees it any more, so it is deleted as far as the caller is concerned.
    LOG_WARN("vfolder half removed",
             {{"vfolder", id.to_string()}, {"error", finished.error().message()}});
  }
  return {};
}

Status VFolders::finish_removal(const catalog::VFolder& vfolder) {
  cache_->drop(vfolder.id);
  ASSIGN_OR_RETURN(const auto backend, volumes_.backend(vfolder.volume));
  auto removed = backend->remove_folder(address(vfolder));
  if (!removed && removed.error().code() != ErrorCode::not_found) return removed;
  cache_->drop(vfolder.id);  // someone may have opened it in between
  auto forgotten = catalog_.vfolders().remove(vfolder.id);
  if (!forgotten && forgotten.error().code() != ErrorCode::not_found) return forgotten;
  return {};
}

Result<backend::Usage> VFolders::usage(const Principal& caller, const Uuid& id) {
  ASSIGN_OR_RETURN(const auto folder, open(caller, id, Access::read));
  return folder->usage();
}

Result<std::shared_ptr<backend::Folder>> VFolders::open(const Principal& caller, const Uuid& id,
                                                        Access access) {
  ASSIGN_OR_RETURN(const auto found, check(caller, id, access));
  return open_unchecked(found.vfolder);
}

Result<std::shared_ptr<backend::Folder>> VFolders::open_unchecked(const catalog::VFolder& vfolder) {
  if (auto open = cache_->find(vfolder.id)) return open;
  const std::uint64_t drops = cache_->drops();
  auto holder = std::make_shared<OpenFolder>();
  ASSIGN_OR_RETURN(holder->backend, volumes_.backend(vfolder.volume));
  auto opened = holder->backend->open_folder(address(vfolder));
  if (!opened && opened.error().code() == ErrorCode::not_found) {
    return fail(ErrorCode::unavailable,
                fmt::format("the directory of vfolder {} is missing from volume '{}'",
                            vfolder.id.to_string(), vfolder.volume));
  }
  if (!opened) return tl::unexpected(std::move(opened).error());
  holder->folder = *std::move(opened);
  std::shared_ptr<backend::Folder> folder(holder, holder->folder.get());
  cache_->put(vfolder.id, folder, drops);
  return folder;
}

Result<Uuid> VFolders::find_tenant(std::string_view text) {
  if (const auto id = Uuid::parse(text)) {
    const auto found = catalog_.tenants().get(*id);
    if (found) return found->id;
    if (found.error().code() != ErrorCode::not_found) return tl::unexpected(found.error());
  }
  const auto found = catalog_.tenants().find(text);
  if (found) return found->id;
  if (found.error().code() == ErrorCode::not_found) return no_such_vfolder();
  return tl::unexpected(found.error());
}

Result<catalog::Share> VFolders::share(const Principal& caller, const Uuid& id,
                                       std::string_view tenant, catalog::Permission permission) {
  RETURN_IF_ERROR(check(caller, id, Access::own));
  if (permission == catalog::Permission::owner) {
    return fail(ErrorCode::invalid_argument, "a vfolder is shared read_only or read_write");
  }
  ASSIGN_OR_RETURN(const auto other, find_tenant(tenant));
  if (other == caller.tenant) {
    return fail(ErrorCode::invalid_argument, "a vfolder cannot be shared with its owner");
  }
  catalog::Share share{
      .vfolder = id, .tenant = other, .permission = permission, .created = clock_.now()};
  auto put = catalog_.shares().put(share);
  if (!put && put.error().code() == ErrorCode::not_found) return no_such_vfolder();
  RETURN_IF_ERROR(put);
  return share;
}

Status VFolders::unshare(const Principal& caller, const Uuid& id, std::string_view tenant) {
  RETURN_IF_ERROR(check(caller, id, Access::own));
  ASSIGN_OR_RETURN(const auto other, find_tenant(tenant));
  return catalog_.shares().remove(id, other);
}

Result<std::vector<catalog::Share>> VFolders::shares(const Principal& caller, const Uuid& id) {
  RETURN_IF_ERROR(check(caller, id, Access::own));
  return catalog_.shares().list(id);
}

}  // namespace onggi::vfolder
