#include "active/sandbox/mounts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace onggi::active {

namespace {

// sys/mount.h and linux/mount.h cannot both be included here; these are of the former.
constexpr unsigned long kMsNosuid = 2;
constexpr unsigned long kMsNodev = 4;
constexpr unsigned long kMsNoexec = 8;
constexpr unsigned long kMsRec = 16384;
constexpr unsigned long kMsPrivate = 1 << 18;
constexpr int kDetach = 2;

constexpr const char* kStage = "/tmp";  // where the new root is built; any directory will do
constexpr const char* kOldRoot = "/.old";

constexpr std::uint64_t kReadOnly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;

tl::unexpected<Error> fail_path(std::string_view what, std::string_view path) {
  return fail_errno(fmt::format("{} {}", what, path));
}

Status mount_at(const char* source, const std::string& target, const char* type,
                unsigned long flags, const char* data) {
  if (syscall(SYS_mount, source, target.c_str(), type, flags, data) != 0) {
    return fail_path("mount", target);
  }
  return {};
}

Status set_attributes(int mount, std::uint64_t attributes, bool recursive, int owner_map = -1) {
  mount_attr wanted{};
  wanted.attr_set = attributes;
  if (owner_map >= 0) {
    wanted.attr_set |= MOUNT_ATTR_IDMAP;
    wanted.userns_fd = static_cast<std::uint64_t>(owner_map);
  }
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
  if (syscall(SYS_mount_setattr, mount, "", flags, &wanted, sizeof(wanted)) != 0) {
    return fail_errno("mount_setattr");
  }
  return {};
}

Result<FileDescriptor> clone_tree(int directory, const char* path, bool recursive) {
  const unsigned flags =
      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
  FileDescriptor tree(static_cast<int>(syscall(SYS_open_tree, directory, path, flags)));
  if (!tree) return fail_path("open_tree", path);
  return tree;
}

Status move_tree(int tree, const std::string& path) {
  if (syscall(SYS_move_mount, tree, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return fail_path("move_mount", path);
  }
  return {};
}

// Directories below `root` down to the one that holds `path`.
Status make_parents(const std::string& root, const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string directory = root + path.substr(0, slash);
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
      // Where the root is read-only mkdir says so even for what exists.
      struct stat status{};
      const int reason = errno;
      if (stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        errno = reason;
        return fail_path("make directory", path.substr(0, slash));
      }
    }
  }
  return {};
}

Status touch(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return fail_path("make", path);
  return {};
}

Status bind_one(const std::string& path, std::uint64_t attributes) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return {};
  const std::string target = kStage + path;
  RETURN_IF_ERROR(make_parents(kStage, path));
  if (S_ISLNK(status.st_mode)) {
    std::array<char, PATH_MAX> link{};
    const ssize_t size = readlink(path.c_str(), link.data(), link.size() - 1);
    if (size > 0 && symlink(link.data(), target.c_str()) != 0 && errno != EEXIST) {
      return fail_path("symlink", path);
    }
    return {};
  }
  const bool directory = S_ISDIR(status.st_mode);
  ASSIGN_OR_RETURN(const FileDescriptor tree, clone_tree(AT_FDCWD, path.c_str(), directory));
  RETURN_IF_ERROR(set_attributes(tree.get(), attributes, directory));
  if (directory) {
    if (mkdir(target.c_str(), 0755) != 0 && errno != EEXIST) return fail_path("make", path);
  } else {
    RETURN_IF_ERROR(touch(target));
  }
  return move_tree(tree.get(), target);
}

bool is_below(std::string_view path, std::string_view parent) {
  return path.size() > parent.size() && path.starts_with(parent) && path[parent.size()] == '/';
}

// Outer before inner, and none that an outer one brings along.
std::vector<std::string> outermost(std::vector<std::string> paths) {
  std::ranges::sort(paths);
  std::vector<std::string> kept;
  for (std::string& path : paths) {
    if (path.size() < 2 || path[0] != '/') continue;
    const bool covered = std::ranges::any_of(
        kept, [&](const std::string& k) { return path == k || is_below(path, k); });
    if (!covered) kept.push_back(std::move(path));
  }
  return kept;
}

Status build_devices() {
  for (const char* device :
       {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    RETURN_IF_ERROR(bind_one(device, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  }
  const std::string dev = std::string(kStage) + "/dev";
  constexpr std::array<std::pair<const char*, const char*>, 5> kLinks = {{
      {"/proc/self/fd", "/fd"},
      {"/proc/self/fd/0", "/stdin"},
      {"/proc/self/fd/1", "/stdout"},
      {"/proc/self/fd/2", "/stderr"},
      {"/tmp", "/shm"},
  }};
  for (const auto& [target, name] : kLinks) {
    if (symlink(target, (dev + name).c_str()) != 0) return fail_path("symlink", name);
  }
  return {};
}

// Where containers forbid a /proc of one's own there is none: few programs need it.
void mount_proc() {
  const std::string target = std::string(kStage) + "/proc";
  if (mkdir(target.c_str(), 0555) != 0) return;
  const unsigned long flags = kMsNosuid | kMsNodev | kMsNoexec;
  static_cast<void>(mount_at("proc", target, "proc", flags, "subset=pid,hidepid=invisible"));
}

Status write_map(pid_t pid, const char* name, unsigned from, unsigned to) {
  const std::string path = fmt::format("/proc/{}/{}", pid, name);
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string text = fmt::format("{} {} 1\n", from, to);
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail_path("write", path);
  }
  return {};
}

Result<FileDescriptor> map_owner(pid_t pid, const struct stat& owner, std::uint32_t uid) {
  RETURN_IF_ERROR(write_map(pid, "uid_map", owner.st_uid, uid));
  RETURN_IF_ERROR(write_map(pid, "gid_map", owner.st_gid, uid));
  const std::string path = fmt::format("/proc/{}/ns/user", pid);
  FileDescriptor space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space) return fail_path("open", path);
  return space;
}

}  // namespace

Result<FileDescriptor> clone_read_only_mount(int directory, int owner_map) {
  ASSIGN_OR_RETURN(FileDescriptor tree, clone_tree(directory, "", false));
  const std::uint64_t attributes = kReadOnly | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  RETURN_IF_ERROR(set_attributes(tree.get(), attributes, false));
  // Not every file system can map owners; then the files' own modes decide what workers read.
  if (owner_map >= 0) static_cast<void>(set_attributes(tree.get(), 0, false, owner_map));
  return tree;
}

Result<FileDescriptor> make_owner_map(int directory, std::uint32_t uid) {
  struct stat status{};
  if (fstat(directory, &status) != 0) return fail_errno("stat the vfolder");
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe");
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  std::array<int, 2> go_ends{};
  if (pipe2(go_ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe");
  const FileDescriptor waits(go_ends[0]);
  FileDescriptor go(go_ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return fail_errno("fork");
  char byte = 0;
  if (pid == 0) {
    // Holds the namespace open until the maps are written and a descriptor of it is taken.
    go.reset();
    const bool made = syscall(SYS_unshare, CLONE_NEWUSER) == 0;
    if (made) static_cast<void>(write(writer.get(), &byte, 1));
    writer.reset();
    static_cast<void>(read(waits.get(), &byte, 1));
    _exit(0);
  }
  writer.reset();
  Result<FileDescriptor> result =
      fail(ErrorCode::unsupported, "no user namespace for an owner map");
  if (read(reader.get(), &byte, 1) == 1) result = map_owner(pid, status, uid);
  go.reset();
  waitpid(pid, nullptr, 0);
  return result;
}

Status build_root(const std::vector<std::string>& binds, bool keep_old) {
  if (auto made = mount_at(nullptr, "/", nullptr, kMsRec | kMsPrivate, nullptr); !made) {
    if (made.error().code() != ErrorCode::invalid_argument) return made;
    return fail(
        ErrorCode::unsupported,
        "the root directory is no mount point, as in a chroot: use a container, or pivot_root");
  }
  // Cloned before the stage hides what lies below it.
  std::vector<std::pair<std::string, FileDescriptor>> hidden;
  for (const std::string& path : outermost(binds)) {
    if (!is_below(path, kStage)) continue;
    auto tree = clone_tree(AT_FDCWD, path.c_str(), true);
    if (!tree) continue;
    RETURN_IF_ERROR(set_attributes(tree->get(), kReadOnly | MOUNT_ATTR_NODEV, true));
    hidden.emplace_back(path, std::move(*tree));
  }
  RETURN_IF_ERROR(
      mount_at("onggi", kStage, "tmpfs", kMsNosuid | kMsNodev, "mode=0755,size=1m,nr_inodes=4k"));
  for (const std::string& path : outermost(binds)) {
    if (is_below(path, kStage)) continue;
    RETURN_IF_ERROR(bind_one(path, kReadOnly | MOUNT_ATTR_NODEV));
  }
  const std::string stage = kStage;
  if (mkdir((stage + "/tmp").c_str(), 0755) != 0 && errno != EEXIST) return fail_errno("make /tmp");
  for (const auto& [path, tree] : hidden) {
    RETURN_IF_ERROR(make_parents(stage, path + "/"));
    RETURN_IF_ERROR(move_tree(tree.get(), stage + path));
  }
  RETURN_IF_ERROR(build_devices());
  mount_proc();
  const std::string old = stage + kOldRoot;
  if (mkdir(old.c_str(), 0700) != 0) return fail_errno("make the old root's place");
  if (syscall(SYS_pivot_root, kStage, old.c_str()) != 0) return fail_errno("pivot_root");
  if (chdir("/") != 0) return fail_errno("chdir to the new root");
  return keep_old ? Status() : drop_old_root();
}

Status drop_old_root() {
  if (syscall(SYS_umount2, kOldRoot, kDetach) != 0) return fail_errno("umount the old root");
  static_cast<void>(rmdir(kOldRoot));
  return {};
}

Status attach_mount(int mount, const std::string& path) {
  RETURN_IF_ERROR(make_directories(path));
  return move_tree(mount, path);
}

Status attach_by_name(int directory, const std::string& path) {
  std::array<char, PATH_MAX> name{};
  const std::string link = fmt::format("{}/proc/self/fd/{}", kOldRoot, directory);
  if (readlink(link.c_str(), name.data(), name.size() - 1) <= 0) return fail_errno("readlink");
  const std::string source = std::string(kOldRoot) + name.data();
  ASSIGN_OR_RETURN(const FileDescriptor tree, clone_tree(AT_FDCWD, source.c_str(), true));
  struct stat wanted{};
  struct stat found{};
  if (fstat(directory, &wanted) != 0 || fstat(tree.get(), &found) != 0) return fail_errno("stat");
  if (wanted.st_dev != found.st_dev || wanted.st_ino != found.st_ino) {
    return fail(ErrorCode::not_found, "the vfolder's directory was moved meanwhile");
  }
  RETURN_IF_ERROR(
      set_attributes(tree.get(), kReadOnly | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, true));
  return attach_mount(tree.get(), path);
}

Status mount_tmp(std::uint32_t uid, std::uint64_t bytes) {
  const std::string options =
      fmt::format("mode=0700,uid={},gid={},size={},nr_inodes={}", uid, uid, bytes, 64 << 10);
  return mount_at("onggi-tmp", "/tmp", "tmpfs", kMsNosuid | kMsNodev | kMsNoexec, options.c_str());
}

Status make_directories(const std::string& path) {
  return make_parents("", path + "/");
}

Status seal_root() {
  const FileDescriptor root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno("open /");
  return set_attributes(root.get(), kReadOnly | MOUNT_ATTR_NODEV, false);
}

}  // namespace onggi::active
