#include "backend/memory/memory_backend.h"

#include <utility>

#include "backend/memory/memory_folder.h"
#include "base/mutex.h"

namespace onggi::backend {
namespace {

class MemoryBackend final : public Backend {
 public:
  explicit MemoryBackend(const Clock& clock) : clock_(clock) {}

  Capabilities capabilities() const override { return {.usage = true}; }
  Result<Space> space() override { return Space{}; }
  Status recover() override { return {}; }

  Status create_folder(const FolderId& id, std::uint32_t /*mode*/) override {
    const MutexLock lock(mutex_);
    if (!folders_.emplace(id, std::make_shared<MemoryTree>(clock_)).second) {
      return fail(ErrorCode::already_exists, "the vfolder exists already");
    }
    return {};
  }

  Result<std::unique_ptr<Folder>> open_folder(const FolderId& id) override {
    const MutexLock lock(mutex_);
    const auto found = folders_.find(id);
    if (found == folders_.end()) return fail(ErrorCode::not_found, "no such vfolder");
    return make_memory_folder(found->second);
  }

  Status remove_folder(const FolderId& id) override {
    const MutexLock lock(mutex_);
    if (folders_.erase(id) == 0) return fail(ErrorCode::not_found, "no such vfolder");
    return {};
  }

  Result<std::vector<FolderId>> list_folders() override {
    const MutexLock lock(mutex_);
    std::vector<FolderId> ids;
    for (const auto& [id, tree] : folders_) ids.push_back(id);
    return ids;
  }

 private:
  const Clock& clock_;
  Mutex mutex_;
  // Shared with open folders, which live on when their vfolder is removed, as open directories do.
  std::map<FolderId, std::shared_ptr<MemoryTree>> folders_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Backend>> open_memory_backend(const BackendSpec& spec, const Clock& clock) {
  if (!spec.options.empty()) {
    return fail(ErrorCode::invalid_argument,
                "the memory backend takes no option '" + spec.options.begin()->first + "'");
  }
  return std::make_unique<MemoryBackend>(clock);
}

}  // namespace onggi::backend
