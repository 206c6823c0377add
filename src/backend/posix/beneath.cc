#include "backend/posix/beneath.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <utility>
#include <vector>

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

std::int64_t nanoseconds(const timespec& t) {
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Listings make one for each entry: by hand it takes a fifth of what formatting does.
std::string etag_of(const struct stat& s) {
  std::array<char, 4 * 17> text{};
  char* end = text.data();
  for (const std::uint64_t part : {std::uint64_t{s.st_ino}, static_cast<std::uint64_t>(s.st_size),
                                   static_cast<std::uint64_t>(nanoseconds(s.st_mtim)),
                                   static_cast<std::uint64_t>(nanoseconds(s.st_ctim))}) {
    end = std::to_chars(end, text.data() + text.size(), part, 16).ptr;
    *end++ = '-';
  }
  return {text.data(), end - 1};
}

FileInfo info_from(const struct stat& s) {
  using std::chrono::milliseconds;
  return {
      .kind = kind_of(s.st_mode),
      .size_bytes = static_cast<std::uint64_t>(s.st_size),
      .modified = UnixTime(milliseconds(s.st_mtim.tv_sec * 1000 + s.st_mtim.tv_nsec / 1'000'000)),
      .modified_ns = nanoseconds(s.st_mtim),
      .changed_ns = nanoseconds(s.st_ctim),
      .mode = s.st_mode & 07777U,
      .etag = etag_of(s)};
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
    if (errno == EXDEV) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' leads out of the vfolder by a symbolic link", path));
    }
    if (errno == ELOOP) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' has symbolic links that go in a circle or to /proc", path));
    }
    return fail_errno(path);
  }
}

}  // namespace

Result<FileDescriptor> open_beneath(int root, const RelPath& path, int flags, std::uint32_t mode) {
  return open_resolved(root, path.is_root() ? "." : path.text().c_str(), flags, mode);
}

Result<Place> open_parent(int root, const RelPath& path, int flags) {
  if (path.is_root()) {
    return fail(ErrorCode::invalid_argument, "the vfolder itself cannot be the target");
  }
  ASSIGN_OR_RETURN(FileDescriptor directory,
                   open_beneath(root, path.parent(), flags | O_DIRECTORY));
  return Place{std::move(directory), std::string(path.name())};
}

Result<FileDescriptor> make_directory(int parent, const std::string& name, std::uint32_t mode) {
  if (::mkdirat(parent, name.c_str(), mode) != 0) return fail_errno(name);
  // By descriptor, since a name could have been swapped for a link to somewhere else by now.
  FileDescriptor made(
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made || ::fchmod(made.get(), mode) != 0) return fail_errno(name);
  return made;
}

Result<FileDescriptor> make_directories(int root, const RelPath& path, bool durable) {
  auto found = open_beneath(root, path, O_RDONLY | O_DIRECTORY);
  std::vector<std::string> missing;  // the deepest first
  for (RelPath above = path; !found; above = above.parent()) {
    if (found.error().code() != ErrorCode::not_found || above.is_root()) return found;
    missing.emplace_back(above.name());
    found = open_beneath(root, above.parent(), O_RDONLY | O_DIRECTORY);
  }
  FileDescriptor directory = *std::move(found);
  for (; !missing.empty(); missing.pop_back()) {
    const std::string& name = missing.back();
    auto made = make_directory(directory.get(), name, kDirectoryMode);
    if (made) {
      if (durable) RETURN_IF_ERROR(sync_descriptor(directory.get()));
    } else if (made.error().code() == ErrorCode::already_exists) {
      // Somebody else's new directory is as good.
      made = open_resolved(directory.get(), name.c_str(), O_RDONLY | O_DIRECTORY, 0);
    }
    if (!made) return made;
    directory = *std::move(made);
  }
  return directory;
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

Status rename_over(const Place& from, const Place& to) {
  if (::renameat(from.directory.get(), from.name.c_str(), to.directory.get(), to.name.c_str()) ==
      0) {
    return {};
  }
  if (errno == EINVAL) {
    return fail(ErrorCode::invalid_argument, "a directory cannot be moved into itself");
  }
  if (errno == EISDIR || errno == ENOTDIR) {
    return fail(ErrorCode::conflict, "a file and a directory cannot replace each other");
  }
  return fail_errno(to.name);
}

Status rename_to_new(const Place& from, const Place& to) {
  if (::renameat2(from.directory.get(), from.name.c_str(), to.directory.get(), to.name.c_str(),
                  RENAME_NOREPLACE) == 0) {
    return {};
  }
  // EINVAL says either that the flag is unknown here or that a directory would go into itself.
  if (errno == EINVAL) return rename_to_new_by_link(from, to);
  return fail_errno(to.name);
}

Status rename_to_new_by_link(const Place& from, const Place& to) {
  ASSIGN_OR_RETURN(const FileInfo info, stat_name(from.directory.get(), from.name));
  if (info.kind != FileKind::directory) {
    if (::linkat(from.directory.get(), from.name.c_str(), to.directory.get(), to.name.c_str(), 0) !=
            0 ||
        ::unlinkat(from.directory.get(), from.name.c_str(), 0) != 0) {
      return fail_errno(to.name);
    }
    return {};
  }
  if (stat_name(to.directory.get(), to.name)) {
    return fail(ErrorCode::already_exists, to.name + " exists already");
  }
  return rename_over(from, to);
}

Result<std::size_t> read_at(int fd, std::uint64_t offset, std::span<std::byte> buffer) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t count =
        ::pread(fd, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (count == 0) break;
    if (count < 0 && errno != EINTR) return fail_errno("read");
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return done;
}

Status sync_descriptor(int fd) {
  if (::fsync(fd) != 0) return fail_errno("make durable");
  return {};
}

}  // namespace onggi::backend
