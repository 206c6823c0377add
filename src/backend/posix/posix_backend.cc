#include "backend/posix/posix_backend.h"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/posix/beneath.h"
#include "backend/posix/posix_folder.h"
#include "base/encoding.h"

namespace onggi::backend {
namespace {

constexpr const char* kTrash = ".onggi-trash";
constexpr std::string_view kLayoutVersion = "3\n";

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// The four directories that lead to a vfolder.
std::array<std::string, 4> segments(const FolderId& id) {
  const std::string hex = id.id.hex();
  return {id.quota_scope.hex(), hex.substr(0, 2), hex.substr(2, 2), hex.substr(4)};
}

// `text` is made by us, of hexadecimal digits and slashes.
RelPath layout_path(const FolderId& id, std::size_t depth) {
  const auto names = segments(id);
  RelPath path;
  for (std::size_t i = 0; i < depth; ++i) path = path.join(names[i]);
  return path;
}

Status make_directory(int parent, const std::string& name, mode_t mode) {
  if (::mkdirat(parent, name.c_str(), mode) == 0) {
    if (::fchmodat(parent, name.c_str(), mode, 0) != 0) return fail_errno(name);
    return sync_descriptor(parent);
  }
  if (errno == EEXIST) return {};
  return fail_errno(name);
}

// The names of a directory's subdirectories that look like hexadecimal digits of length `digits`.
Result<std::vector<std::string>> hex_names(int directory, std::size_t digits) {
  FileDescriptor fd(::openat(directory, ".", kOpenDirectory));
  if (!fd) return fail_errno("open a directory");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), &::closedir);
  if (!stream) return fail_errno("open a directory");
  fd.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name.size() == digits && hex_decode(name)) names.push_back(name);
  }
  return names;
}

class PosixBackend final : public Backend {
 public:
  explicit PosixBackend(FileDescriptor root) : root_(std::move(root)) {}

  Capabilities capabilities() const override { return {.direct = true, .durable = true}; }

  Result<Space> space() override {
    struct statvfs s{};
    if (::fstatvfs(root_.get(), &s) != 0) return fail_errno("space of the volume");
    return Space{.total_bytes = s.f_blocks * s.f_frsize,
                 .available_bytes = s.f_bavail * s.f_frsize,
                 .inodes_total = s.f_files,
                 .inodes_available = s.f_favail};
  }

  Status create_folder(const FolderId& id, std::uint32_t mode) override {
    const auto names = segments(id);
    FileDescriptor parent(::openat(root_.get(), ".", kOpenDirectory));
    if (!parent) return fail_errno("open the volume");
    for (std::size_t i = 0; i + 1 < names.size(); ++i) {
      RETURN_IF_ERROR(make_directory(parent.get(), names[i], 0755));
      FileDescriptor next(::openat(parent.get(), names[i].c_str(), kOpenDirectory));
      if (!next) return fail_errno("open the quota scope");
      parent = std::move(next);
    }
    if (::mkdirat(parent.get(), names.back().c_str(), mode) != 0)
      return fail_errno("make the vfolder");
    if (::fchmodat(parent.get(), names.back().c_str(), mode, 0) != 0) {
      return fail_errno("make the vfolder");
    }
    return sync_descriptor(parent.get());
  }

  Result<std::unique_ptr<Folder>> open_folder(const FolderId& id) override {
    ASSIGN_OR_RETURN(FileDescriptor folder,
                     open_beneath(root_.get(), layout_path(id, 4), O_RDONLY | O_DIRECTORY));
    return make_posix_folder(std::move(folder));
  }

  Status remove_folder(const FolderId& id) override {
    const auto names = segments(id);
    ASSIGN_OR_RETURN(const FileDescriptor parent,
                     open_beneath(root_.get(), layout_path(id, 3), O_RDONLY | O_DIRECTORY));
    RETURN_IF_ERROR(make_directory(root_.get(), kTrash, 0700));
    const FileDescriptor trash(::openat(root_.get(), kTrash, kOpenDirectory));
    if (!trash) return fail_errno("open the trash");
    const std::string name = id.id.hex();
    if (::renameat(parent.get(), names.back().c_str(), trash.get(), name.c_str()) != 0) {
      return fail_errno("remove the vfolder");
    }
    RETURN_IF_ERROR(sync_descriptor(parent.get()));
    RETURN_IF_ERROR(remove_tree(trash.get(), name));
    for (std::size_t depth = 3; depth > 1; --depth) {  // shard directories, when empty
      ASSIGN_OR_RETURN(const Place place, open_parent(root_.get(), layout_path(id, depth)));
      if (::unlinkat(place.directory.get(), place.name.c_str(), AT_REMOVEDIR) != 0) break;
    }
    return {};
  }

  Result<std::vector<FolderId>> list_folders() override {
    std::vector<FolderId> folders;
    ASSIGN_OR_RETURN(const auto scopes, hex_names(root_.get(), 32));
    for (const std::string& scope : scopes) {
      ASSIGN_OR_RETURN(const Uuid quota_scope, Uuid::parse(scope));
      const FileDescriptor directory(::openat(root_.get(), scope.c_str(), kOpenDirectory));
      if (directory) RETURN_IF_ERROR(add_folders(directory.get(), quota_scope, "", folders));
    }
    return folders;
  }

  Status recover() override {
    const FileDescriptor trash(::openat(root_.get(), kTrash, kOpenDirectory));
    if (!trash) {
      if (errno == ENOENT) return {};
      return fail_errno("open the trash");
    }
    return remove_content(trash.get());
  }

 private:
  // Below a quota scope: two levels of two digits, then the rest.
  static Status add_folders(int directory, const Uuid& scope, const std::string& digits,
                            std::vector<FolderId>& out) {
    ASSIGN_OR_RETURN(const auto names, hex_names(directory, digits.size() < 4 ? 2 : 28));
    for (const std::string& name : names) {
      if (digits.size() == 4) {
        ASSIGN_OR_RETURN(const Uuid id, Uuid::parse(digits + name));
        out.push_back({scope, id});
        continue;
      }
      const FileDescriptor below(::openat(directory, name.c_str(), kOpenDirectory));
      if (below) RETURN_IF_ERROR(add_folders(below.get(), scope, digits + name, out));
    }
    return {};
  }

  FileDescriptor root_;
};

// Marks a new volume with the layout's version, as Backend.AI's storage proxy expects.
Status write_version(int root) {
  const FileDescriptor file(
      ::openat(root, "version.txt", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) {
    if (errno == EEXIST) return {};
    return fail_errno("write version.txt");
  }
  if (::write(file.get(), kLayoutVersion.data(), kLayoutVersion.size()) !=
      static_cast<ssize_t>(kLayoutVersion.size())) {
    return fail_errno("write version.txt");
  }
  return sync_descriptor(file.get());
}

}  // namespace

Result<std::unique_ptr<Backend>> open_posix_backend(const BackendSpec& spec) {
  const auto path = spec.options.find("path");
  if (path == spec.options.end() || !path->second.starts_with('/')) {
    return fail(ErrorCode::invalid_argument,
                "the posix backend needs the option 'path', an absolute directory");
  }
  const bool made = ::mkdir(path->second.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) return fail_errno(path->second);
  FileDescriptor root(::open(path->second.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno(path->second);
  auto probe = open_beneath(root.get(), RelPath(), O_PATH | O_DIRECTORY);
  if (!probe && probe.error().code() == ErrorCode::unsupported) {
    return fail(ErrorCode::unsupported,
                "this kernel has no openat2 (Linux 5.6), without which vfolders are not contained");
  }
  if (made) RETURN_IF_ERROR(write_version(root.get()));
  return std::make_unique<PosixBackend>(std::move(root));
}

}  // namespace onggi::backend
