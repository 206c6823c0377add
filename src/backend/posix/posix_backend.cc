#include "backend/posix/posix_backend.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/posix/beneath.h"
#include "backend/posix/posix_folder.h"
#include "backend/posix/removal.h"
#include "base/encoding.h"

namespace onggi::backend {
namespace {

constexpr const char* kTrash = ".onggi-trash";
constexpr const char* kVersionFile = "version.txt";
constexpr std::string_view kLayoutVersion = "3\n";

// Not in linux/magic.h: file systems from outside the kernel's tree, and one that is young.
constexpr long kZfsMagic = 0x2FC12FC1;
constexpr long kBcachefsMagic = 0xCA451A4E;

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

// Makes a directory of the layout, unless it is there, and opens it.
Result<FileDescriptor> open_or_make(int parent, const std::string& name, mode_t mode) {
  FileDescriptor found(::openat(parent, name.c_str(), kOpenDirectory));
  if (found) return found;
  if (errno != ENOENT) return fail_errno(name);
  auto made = make_directory(parent, name, mode);
  if (made) RETURN_IF_ERROR(sync_descriptor(parent));
  if (!made && made.error().code() == ErrorCode::already_exists) {  // just now, by another
    found.reset(::openat(parent, name.c_str(), kOpenDirectory));
    if (found) return found;
    return fail_errno(name);
  }
  return made;
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
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    if (name.size() == digits && hex_decode(name)) names.push_back(name);
  }
  return names;
}

// Whether the directory may lie on another machine: whatever is not known to be a local disk's.
bool is_remote(int directory) {
  constexpr auto kLocal =
      std::to_array<long>({EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                           OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, kZfsMagic, kBcachefsMagic});
  struct statfs info{};
  return ::fstatfs(directory, &info) != 0 || std::ranges::find(kLocal, info.f_type) == kLocal.end();
}

class PosixBackend final : public Backend {
 public:
  explicit PosixBackend(FileDescriptor root)
      : root_(std::move(root)), remote_(is_remote(root_.get())) {}

  Capabilities capabilities() const override {
    return {.direct = true, .durable = true, .remote = remote_};
  }

  Result<Space> space() override {
    struct statvfs s{};
    if (::fstatvfs(root_.get(), &s) != 0) return fail_errno("space of the volume");
    return Space{.total_bytes = s.f_blocks * s.f_frsize,
                 .available_bytes = s.f_bavail * s.f_frsize,
                 .inodes_total = s.f_files,
                 .inodes_available = s.f_favail};
  }

  Status create_folder(const FolderId& id, std::uint32_t mode) override {
    constexpr int kAttempts = 10;
    for (int attempt = 1;; ++attempt) {
      auto status = try_create_folder(id, mode);
      // A shard directory may go with the last of its vfolders just as we enter it.
      const bool vanished = !status && status.error().code() == ErrorCode::not_found;
      if (!vanished || attempt == kAttempts) return status;
    }
  }

  Result<std::unique_ptr<Folder>> open_folder(const FolderId& id) override {
    ASSIGN_OR_RETURN(FileDescriptor folder,
                     open_beneath(root_.get(), layout_path(id, 4), O_RDONLY | O_DIRECTORY));
    return make_posix_folder(std::move(folder), state_);
  }

  Status remove_folder(const FolderId& id) override {
    ASSIGN_OR_RETURN(FileDescriptor directory, open_or_make(root_.get(), kTrash, 0700));
    const Place trash{std::move(directory), id.id.hex()};
    auto away = put_away(id, trash);
    if (!away) {
      // Gone already; an attempt before this one may have left its content behind.
      const bool left = away.error().code() == ErrorCode::not_found &&
                        stat_name(trash.directory.get(), trash.name);
      if (!left) return away;
    }
    RETURN_IF_ERROR(remove_tree(trash.directory.get(), trash.name));
    for (std::size_t depth = 3; depth > 1; --depth) {  // shard directories, when empty
      const auto place = open_parent(root_.get(), layout_path(id, depth), O_PATH);
      if (!place || ::unlinkat(place->directory.get(), place->name.c_str(), AT_REMOVEDIR) != 0) {
        break;
      }
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
  Status try_create_folder(const FolderId& id, std::uint32_t mode) {
    const auto names = segments(id);
    FileDescriptor parent(::openat(root_.get(), ".", kOpenDirectory));
    if (!parent) return fail_errno("open the volume");
    for (std::size_t i = 0; i + 1 < names.size(); ++i) {
      ASSIGN_OR_RETURN(parent, open_or_make(parent.get(), names[i], 0755));
    }
    const auto made = make_directory(parent.get(), names.back(), mode);
    if (!made) return tl::unexpected(Error(made.error()).with("make the vfolder"));
    return sync_descriptor(parent.get());
  }

  // Renames the vfolder into the trash, where what an earlier one of this id left makes way.
  Status put_away(const FolderId& id, const Place& trash) {
    ASSIGN_OR_RETURN(const Place place, open_parent(root_.get(), layout_path(id, 4), O_RDONLY));
    RETURN_IF_ERROR(stat_name(place.directory.get(), place.name));
    RETURN_IF_ERROR(remove_tree(trash.directory.get(), trash.name));
    RETURN_IF_ERROR(rename_over(place, trash));
    RETURN_IF_ERROR(sync_descriptor(trash.directory.get()));
    return sync_descriptor(place.directory.get());
  }

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
  const bool remote_;
  SharedVolumeState state_ = std::make_shared<VolumeState>();
};

// Whether nothing is in the volume but what mkfs puts there.
Result<bool> is_new(int root) {
  FileDescriptor fd(::openat(root, ".", kOpenDirectory));
  if (!fd) return fail_errno("open the volume");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), &::closedir);
  if (!stream) return fail_errno("open the volume");
  fd.release();
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != "lost+found") return false;
  }
  return true;
}

// Marks a new volume with the layout's version, as Backend.AI's storage proxy expects, and refuses
// one of another layout. A volume in use without a mark is let pass, as there.
Status check_version(int root) {
  FileDescriptor file(::openat(root, kVersionFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file) {
    std::array<char, 16> text{};
    ASSIGN_OR_RETURN(const std::size_t count,
                     read_at(file.get(), 0, std::as_writable_bytes(std::span(text))));
    std::string_view version(text.data(), count);
    version = version.substr(0, version.find('\n'));
    if (version == kLayoutVersion.substr(0, 1)) return {};
    return fail(ErrorCode::unsupported,
                fmt::format("the volume's layout is version '{}'; this build knows 3", version));
  }
  if (errno != ENOENT) return fail_errno(kVersionFile);
  ASSIGN_OR_RETURN(const bool fresh, is_new(root));
  if (!fresh) return {};
  file.reset(::openat(root, kVersionFile, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file || ::write(file.get(), kLayoutVersion.data(), kLayoutVersion.size()) !=
                   static_cast<ssize_t>(kLayoutVersion.size())) {
    return fail_errno(kVersionFile);
  }
  RETURN_IF_ERROR(sync_descriptor(file.get()));
  return sync_descriptor(root);
}

}  // namespace

Result<std::unique_ptr<Backend>> open_posix_backend(const BackendSpec& spec) {
  const auto path = spec.options.find("path");
  if (path == spec.options.end() || !path->second.starts_with('/')) {
    return fail(ErrorCode::invalid_argument,
                "the posix backend needs the option 'path', an absolute directory");
  }
  if (::mkdir(path->second.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno(path->second);
  FileDescriptor root(::open(path->second.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno(path->second);
  auto probe = open_beneath(root.get(), RelPath(), O_PATH | O_DIRECTORY);
  if (!probe && probe.error().code() == ErrorCode::unsupported) {
    return fail(ErrorCode::unsupported,
                "this kernel has no openat2 (Linux 5.6), without which vfolders are not contained");
  }
  RETURN_IF_ERROR(check_version(root.get()));
  return std::make_unique<PosixBackend>(std::move(root));
}

}  // namespace onggi::backend
