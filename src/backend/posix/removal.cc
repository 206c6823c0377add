#include "backend/posix/removal.h"

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/uuid.h"

namespace onggi::backend {
namespace {

// A deeper tree is flattened as it goes, so that its depth costs neither stack nor descriptors.
constexpr std::size_t kDepthMax = 64;
// How often a directory that fills while it is emptied is begun again.
constexpr int kPassesMax = 100;
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// One level of a tree being removed.
struct Level {
  std::unique_ptr<DIR, int (*)(DIR*)> stream;
  std::string name;
  int passes = 0;

  int directory() const { return ::dirfd(stream.get()); }
};

// Lets us into a directory whose mode keeps even its owner out. By descriptor, since the name could
// be swapped for a link.
void make_accessible(int parent, const std::string& name) {
  const FileDescriptor fd(
      ::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd) ::chmod(fmt::format("/proc/self/fd/{}", fd.get()).c_str(), S_IRWXU);
}

Result<Level> enter(int parent, const std::string& name) {
  FileDescriptor fd(::openat(parent, name.c_str(), kOpenDirectory));
  if (!fd && errno == EACCES) {
    make_accessible(parent, name);
    fd.reset(::openat(parent, name.c_str(), kOpenDirectory));
  }
  if (!fd) return fail_errno(name);
  DIR* stream = ::fdopendir(fd.get());
  if (stream == nullptr) return fail_errno(name);
  fd.release();
  return Level{{stream, &::closedir}, name};
}

// 0 or errno; ENOENT is as good as done.
int unlink_name(int directory, const char* name, int flags) {
  if (::unlinkat(directory, name, flags) == 0 || errno == ENOENT) return 0;
  if (errno != EACCES) return errno;
  if (::fchmod(directory, S_IRWXU) != 0) return EACCES;
  return ::unlinkat(directory, name, flags) == 0 || errno == ENOENT ? 0 : errno;
}

// True when the name is gone, false when it is a directory that is not empty. `is_directory` may be
// wrong.
Result<bool> remove_one(int directory, const char* name, bool is_directory) {
  int error = unlink_name(directory, name, is_directory ? AT_REMOVEDIR : 0);
  if (error == (is_directory ? ENOTDIR : EISDIR)) {
    error = unlink_name(directory, name, is_directory ? 0 : AT_REMOVEDIR);
  }
  if (error == 0) return true;
  if (error == ENOTEMPTY || error == EEXIST) return false;
  return tl::unexpected(error_from_errno(error, name));
}

class Remover {
 public:
  Status run(Level top) {
    levels_.push_back(std::move(top));
    while (!levels_.empty()) {
      errno = 0;
      const dirent* entry = ::readdir(levels_.back().stream.get());
      if (entry == nullptr) {
        if (errno != 0) return fail_errno("read a directory");
        RETURN_IF_ERROR(leave());
        continue;
      }
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      removed_at_top_ = removed_at_top_ || levels_.size() == 1;
      ASSIGN_OR_RETURN(const bool gone, remove_one(levels_.back().directory(), entry->d_name,
                                                   entry->d_type == DT_DIR));
      if (!gone) RETURN_IF_ERROR(descend(std::string(name)));
    }
    return {};
  }

 private:
  Status descend(const std::string& name) {
    const int directory = levels_.back().directory();
    if (levels_.size() < kDepthMax) {
      auto next = enter(directory, name);
      if (!next && next.error().code() == ErrorCode::not_found) return {};
      if (!next) return tl::unexpected(std::move(next).error());
      levels_.push_back(*std::move(next));
      return {};
    }
    const std::string flat = fmt::format(".onggi-flat-{}", Uuid::random().hex());
    if (::renameat(directory, name.c_str(), levels_.front().directory(), flat.c_str()) != 0 &&
        errno != ENOENT) {
      return fail_errno(name);
    }
    removed_at_top_ = true;
    return {};
  }

  // At the end of a directory: it goes, or is read once more when something has come in meanwhile
  // (or when the file system skips names while others are removed).
  Status leave() {
    Level& level = levels_.back();
    if (levels_.size() == 1) {
      if (!std::exchange(removed_at_top_, false) || ++level.passes > kPassesMax) {
        levels_.pop_back();
      } else {
        ::rewinddir(level.stream.get());
      }
      return {};
    }
    const int parent = levels_[levels_.size() - 2].directory();
    ASSIGN_OR_RETURN(const bool gone, remove_one(parent, level.name.c_str(), true));
    if (gone) {
      levels_.pop_back();
    } else if (++level.passes > kPassesMax) {
      return fail(ErrorCode::conflict, level.name + " is being filled while it is removed");
    } else {
      ::rewinddir(level.stream.get());
    }
    return {};
  }

  std::vector<Level> levels_;
  bool removed_at_top_ = false;  // since the top was last read from its start
};

}  // namespace

Status remove_content(int directory) {
  ASSIGN_OR_RETURN(Level top, enter(directory, "."));
  return Remover().run(std::move(top));
}

Status remove_tree(int parent, const std::string& name) {
  for (int pass = 0; pass < kPassesMax; ++pass) {
    ASSIGN_OR_RETURN(const bool gone, remove_one(parent, name.c_str(), false));
    if (gone) return {};
    ASSIGN_OR_RETURN(Level level, enter(parent, name));
    RETURN_IF_ERROR(Remover().run(std::move(level)));
  }
  return fail(ErrorCode::conflict, name + " is being filled while it is removed");
}

}  // namespace onggi::backend
