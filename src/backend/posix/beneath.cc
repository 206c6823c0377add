#include "backend/posix/beneath.h"

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace onggi::backend {
namespace {

constexpr mode_t kDirectoryMode = 0775;
constexpr int kEscapeRetries = 32;

FileKind kind_of(std::uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileKind::file;
    case S_IFDIR:
      return FileKind::directory;
    case S_IFLNK:
      return FileKind::symlink;
    default:
      return FileKind::other;
  }
}

FileInfo info_from(const struct stat& s) {
  using std::chrono::milliseconds;
  const auto nanoseconds = [](const timespec& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(t.tv_nsec);
  };
  return {
      .kind = kind_of(s.st_mode),
      .size_bytes = static_cast<std::uint64_t>(s.st_size),
      .modified = UnixTime(milliseconds(s.st_mtim.tv_sec * 1000 + s.st_mtim.tv_nsec / 1'000'000)),
      .mode = s.st_mode & 07777U,
      .etag = fmt::format("{:x}-{:x}-{:x}-{:x}", s.st_ino, s.st_size, nanoseconds(s.st_mtim),
                          nanoseconds(s.st_ctim))};
}

Result<FileDescriptor> open_resolved(int root, const char* path, int flags, std::uint32_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 0;; ++attempt) {
    const auto fd = static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof how));
    if (fd >= 0) return FileDescriptor(fd);
    // EAGAIN: something was renamed while '..' in a link was being resolved; safe to try again.
    if (errno == EINTR || (errno == EAGAIN && attempt < kEscapeRetries)) continue;
    if (errno == EXDEV || errno == ELOOP) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' leads out of the vfolder by a symbolic link", path));
    }
    return fail_errno(path);
  }
}

// One level of a tree being removed.
struct Level {
  std::unique_ptr<DIR, int (*)(DIR*)> stream;
  std::string name;
};

Result<Level> enter(int parent, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor fd(::openat(parent, name.c_str(), kFlags));
  if (!fd && errno == EACCES && ::fchmodat(parent, name.c_str(), S_IRWXU, 0) == 0) {
    fd.reset(::openat(parent, name.c_str(), kFlags));
  }
  if (!fd) return fail_errno(name);
  DIR* stream = ::fdopendir(fd.get());
  if (stream == nullptr) return fail_errno(name);
  fd.release();
  return Level{{stream, &::closedir}, name};
}

// Removes what can be removed at once; the name of the first directory that must be entered, else
// empty.
Result<std::string> remove_leaves(DIR* stream) {
  const int directory = ::dirfd(stream);
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) {
      if (errno != 0) return fail_errno("read a directory");
      return std::string();
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::unlinkat(directory, entry->d_name, 0) == 0 || errno == ENOENT) continue;
    if (errno == EACCES && ::fchmod(directory, S_IRWXU) == 0 &&
        ::unlinkat(directory, entry->d_name, 0) == 0) {
      continue;
    }
    if (errno != EISDIR && errno != EPERM) return fail_errno(name);
    if (::unlinkat(directory, entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT) continue;
    if (errno != ENOTEMPTY && errno != EEXIST) return fail_errno(name);
    return std::string(name);
  }
}

}  // namespace

Result<FileDescriptor> open_beneath(int root, const RelPath& path, int flags, std::uint32_t mode) {
  return open_resolved(root, path.is_root() ? "." : path.text().c_str(), flags, mode);
}

Result<Place> open_parent(int root, const RelPath& path) {
  if (path.is_root()) {
    return fail(ErrorCode::invalid_argument, "the vfolder itself cannot be the target");
  }
  ASSIGN_OR_RETURN(FileDescriptor directory,
                   open_beneath(root, path.parent(), O_PATH | O_DIRECTORY));
  return Place{std::move(directory), std::string(path.name())};
}

Result<FileDescriptor> make_directories(int root, const RelPath& path, bool durable) {
  auto existing = open_beneath(root, path, O_RDONLY | O_DIRECTORY);
  if (existing || existing.error().code() != ErrorCode::not_found) return existing;
  ASSIGN_OR_RETURN(const FileDescriptor parent, make_directories(root, path.parent(), durable));
  const std::string name(path.name());
  if (::mkdirat(parent.get(), name.c_str(), kDirectoryMode) == 0) {
    if (durable) RETURN_IF_ERROR(sync_descriptor(parent.get()));
  } else if (errno != EEXIST) {  // somebody else's new directory is as good
    return fail_errno(path.text());
  }
  ASSIGN_OR_RETURN(FileDescriptor made, open_beneath(root, path, O_RDONLY | O_DIRECTORY));
  ::fchmod(made.get(), kDirectoryMode);
  return made;
}

Result<FileInfo> stat_name(int directory, const std::string& name) {
  struct stat s{};
  if (::fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) return fail_errno(name);
  return info_from(s);
}

Result<FileInfo> stat_descriptor(int fd) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return fail_errno("stat");
  return info_from(s);
}

Status sync_descriptor(int fd) {
  if (::fsync(fd) != 0) return fail_errno("make durable");
  return {};
}

// Iterative, so that a deep tree costs descriptors, not stack; beyond the limit of descriptors a
// deep tree is flattened by moving what lies deep up to the top.
Status remove_content(int directory) {
  constexpr std::size_t kDepthMax = 64;
  ASSIGN_OR_RETURN(Level top, enter(directory, "."));
  std::vector<Level> levels;
  levels.push_back(std::move(top));
  std::uint64_t moved = 0;
  while (!levels.empty()) {
    DIR* stream = levels.back().stream.get();
    ASSIGN_OR_RETURN(const std::string below, remove_leaves(stream));
    if (below.empty()) {
      const std::string name = levels.back().name;
      levels.pop_back();
      if (!levels.empty() &&
          ::unlinkat(::dirfd(levels.back().stream.get()), name.c_str(), AT_REMOVEDIR) != 0 &&
          errno != ENOENT && errno != ENOTEMPTY) {
        return fail_errno(name);
      }
      if (!levels.empty()) ::rewinddir(levels.back().stream.get());
    } else if (levels.size() < kDepthMax) {
      ASSIGN_OR_RETURN(Level next, enter(::dirfd(stream), below));
      levels.push_back(std::move(next));
    } else {
      const std::string flat = fmt::format(".onggi-flat-{}", moved++);
      if (::renameat(::dirfd(stream), below.c_str(), ::dirfd(levels.front().stream.get()),
                     flat.c_str()) != 0) {
        return fail_errno(below);
      }
      ::rewinddir(stream);
    }
  }
  return {};
}

Status remove_tree(int parent, const std::string& name) {
  if (::unlinkat(parent, name.c_str(), 0) == 0) return {};
  if (errno != EISDIR && errno != EPERM) return fail_errno(name);
  ASSIGN_OR_RETURN(const Level level, enter(parent, name));
  RETURN_IF_ERROR(remove_content(::dirfd(level.stream.get())));
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) return fail_errno(name);
  return {};
}

}  // namespace onggi::backend
