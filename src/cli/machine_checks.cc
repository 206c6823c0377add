#include "cli/machine_checks.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "cli/output.h"

namespace onggi::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kFilesWanted = 65'536;

std::string read_file(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::string out = text.str();
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  return out;
}

std::uint64_t read_number(const std::string& path) {
  const std::string text = read_file(path);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string words_of(int error) {
  return std::generic_category().message(error);
}

Finding check_machine() {
  utsname name{};
  uname(&name);
  const auto memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {.name = "machine",
          .found = fmt::format("Linux {} on {}, {} CPUs, {} of memory", std::data(name.release),
                               std::data(name.machine), sysconf(_SC_NPROCESSORS_ONLN),
                               human_size(memory))};
}

Finding check_io_uring() {
  io_uring_params params{};
  const FileDescriptor ring(static_cast<int>(syscall(__NR_io_uring_setup, 1, &params)));
  if (ring) return {.name = "io_uring", .found = "available"};
  const int error = errno;
  return {.name = "io_uring",
          .health = Health::worse,
          .found = error == ENOSYS ? "this kernel has none" : words_of(error),
          .cost = "batched disk I/O falls back to threads: more CPU time per byte",
          .remedy = error == EPERM
                        ? "sysctl kernel.io_uring_disabled=0, or allow io_uring_* in the "
                          "container's seccomp profile"
                        : "a kernel of 5.1 or newer with CONFIG_IO_URING"};
}

Finding check_huge_pages() {
  const std::uint64_t reserved =
      read_number("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  const std::string transparent = read_file("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool on_request = transparent.find("[madvise]") != std::string::npos ||
                          transparent.find("[always]") != std::string::npos;
  if (reserved > 0 || on_request) {
    return {.name = "huge pages",
            .found = fmt::format("{} reserved (2 MiB each); transparent ones {}", reserved,
                                 on_request ? "on request" : "off")};
  }
  return {.name = "huge pages",
          .health = Health::worse,
          .found = "none reserved, transparent ones off",
          .cost = "large buffers use 4 KiB pages: about half the throughput of direct I/O",
          .remedy =
              "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or "
              "sysctl vm.nr_hugepages=512"};
}

Finding check_numa() {
  std::size_t nodes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.size() > 4 && std::isdigit(name[4]) != 0) ++nodes;
  }
  const std::size_t count = std::max<std::size_t>(1, nodes);
  return {.name = "NUMA",
          .health = Health::info,
          .found = count == 1 ? "one node: all memory is equally near"
                              : fmt::format("{} nodes: work is kept near its memory", count)};
}

bool can_load(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return false;
  dlclose(handle);
  return true;
}

Finding check_gpu() {
  std::size_t devices = 0;
  while (fs::exists(fmt::format("/dev/nvidia{}", devices))) ++devices;
  if (devices == 0) {
    return {.name = "GPU",
            .health = Health::info,
            .found = "none",
            .cost = "nothing for storage; batches end in host memory"};
  }
  if (can_load("libcuda.so.1")) {
    return {.name = "GPU", .found = fmt::format("{} NVIDIA devices, driver loaded", devices)};
  }
  return {.name = "GPU",
          .health = Health::worse,
          .found = fmt::format("{} NVIDIA devices, but libcuda.so.1 cannot be loaded", devices),
          .cost = "GPUs are not used",
          .remedy = "install the driver's user-space libraries"};
}

Finding check_gds() {
  if (!fs::exists("/dev/nvidia0")) {
    return {.name = "GPUDirect Storage", .health = Health::info, .found = "no GPU, so not needed"};
  }
  const bool driver = fs::exists("/dev/nvidia-fs0") || fs::exists("/proc/driver/nvidia-fs");
  const bool library = can_load("libcufile.so.0");
  if (driver && library) return {.name = "GPUDirect Storage", .found = "available"};
  return {.name = "GPUDirect Storage",
          .health = Health::worse,
          .found = fmt::format("{}{}", driver ? "" : "no nvidia-fs driver",
                               library  ? ""
                               : driver ? "no libcufile"
                                        : ", no libcufile"),
          .cost = "bytes for a GPU pass through host memory first",
          .remedy = "install nvidia-fs-dkms and libcufile (package gds-tools)"};
}

Finding check_cgroups() {
  const bool v2 = fs::exists("/sys/fs/cgroup/cgroup.controllers");
  const bool v1 = !v2 && fs::exists("/sys/fs/cgroup/memory");
  const char* folder = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
  const bool writable = (v1 || v2) && access(folder, W_OK) == 0;
  if (writable) {
    return {.name = "cgroups", .found = fmt::format("version {}, writable", v2 ? 2 : 1)};
  }
  return {.name = "cgroups",
          .health = Health::worse,
          .found = v1 || v2 ? fmt::format("version {}, not writable here", v2 ? 2 : 1) : "none",
          .cost = "limits on a task's memory and processes hold per process, not for all together",
          .remedy = "run onggid as root or as a systemd service with Delegate=yes"};
}

// Tries in a child, so that this process stays as it is.
int try_user_namespace() {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) == 0 ? 0 : errno);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

Finding check_namespaces() {
  const int error = try_user_namespace();
  if (error == 0) return {.name = "namespaces", .found = "user, mount and pid namespaces work"};
  return {.name = "namespaces",
          .health = Health::broken,
          .found = fmt::format("cannot be made: {}", words_of(error)),
          .cost = "tasks are refused: nobody's code runs without its walls. Storage works",
          .remedy =
              "sysctl kernel.unprivileged_userns_clone=1 and "
              "kernel.apparmor_restrict_unprivileged_userns=0, or run onggid as root; in a "
              "container, allow unshare and mount"};
}

Finding check_seccomp() {
  const std::string actions = read_file("/proc/sys/kernel/seccomp/actions_avail");
  if (actions.find("errno") != std::string::npos) {
    return {.name = "seccomp", .found = "filters available"};
  }
  return {.name = "seccomp",
          .health = Health::broken,
          .found = "no filters",
          .cost = "tasks are refused: their system calls could not be limited",
          .remedy = "a kernel with CONFIG_SECCOMP_FILTER"};
}

Finding check_landlock() {
  constexpr unsigned kVersionFlag = 1;
  constexpr long kCreateRuleset = 444;
  const long version = syscall(kCreateRuleset, nullptr, 0, kVersionFlag);
  if (version > 0) return {.name = "Landlock", .found = fmt::format("ABI {}", version)};
  return {.name = "Landlock",
          .health = Health::worse,
          .found = errno == EOPNOTSUPP ? "in the kernel, but off" : "not in this kernel",
          .cost = "one of several walls around a task's files is missing; the others hold",
          .remedy = "boot with lsm=landlock,… (kernel 5.13 or newer)"};
}

fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (!path.empty() && path != path.parent_path() && !fs::exists(path, ignored)) {
    path = path.parent_path();
  }
  return path.empty() ? fs::path(".") : path;
}

std::string file_system_name(long type) {
  static const std::map<long, std::string_view> names{
      {0xEF53, "ext4"},        {0x58465342, "XFS"},    {0x9123683E, "Btrfs"},
      {0x01021994, "tmpfs"},   {0x6969, "NFS"},        {0x794C7630, "overlayfs"},
      {0x2FC12FC1, "ZFS"},     {0x00C36400, "CephFS"}, {0x0BD00BD0, "Lustre"},
      {0x65735546, "FUSE"},    {0x47504653, "GPFS"},   {0xF2F52010, "F2FS"},
      {0xCA451A4E, "bcachefs"}};
  const auto found = names.find(type);
  return found == names.end() ? fmt::format("type 0x{:x}", type) : std::string(found->second);
}

bool direct_io_works(const fs::path& folder) {
  const FileDescriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  return static_cast<bool>(file);
}

bool reflink_works(const fs::path& folder) {
  const FileDescriptor from(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  const FileDescriptor to(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!from || !to || ftruncate(from.get(), 4096) != 0) return false;
  return ioctl(to.get(), FICLONE, from.get()) == 0;
}

std::vector<Finding> check_data_folder(const std::string& data_folder) {
  const fs::path folder = nearest_existing(data_folder);
  struct statfs info{};
  if (statfs(folder.c_str(), &info) != 0) {
    return {{.name = "data folder",
             .health = Health::broken,
             .found = fmt::format("{}: {}", data_folder, words_of(errno)),
             .cost = "the daemon cannot start",
             .remedy = "name another by --data"}};
  }
  const auto block = static_cast<std::uint64_t>(info.f_bsize);
  const std::string type = file_system_name(info.f_type);
  std::vector<Finding> findings;
  findings.push_back(
      {.name = "data folder",
       .found = fmt::format("{} on {}, {} free of {}", data_folder, type,
                            human_size(info.f_bavail * block), human_size(info.f_blocks * block))});
  if (access(folder.c_str(), W_OK) != 0) {
    findings.back().health = Health::worse;
    findings.back().cost = "you cannot run a daemon on it";
    findings.back().remedy = "run as its owner, or name another by --data";
    return findings;
  }
  if (type == "tmpfs") {
    findings.back().health = Health::worse;
    findings.back().cost = "it is memory: everything is lost at the next boot";
    findings.back().remedy = "name a folder on a disk by --data";
  }
  findings.push_back(direct_io_works(folder)
                         ? Finding{.name = "O_DIRECT", .found = "works in the data folder"}
                         : Finding{.name = "O_DIRECT",
                                   .health = Health::worse,
                                   .found = "not on this file system",
                                   .cost = "large transfers go through the page cache",
                                   .remedy = "ext4 or XFS"});
  findings.push_back(reflink_works(folder)
                         ? Finding{.name = "reflink", .found = "works in the data folder"}
                         : Finding{.name = "reflink",
                                   .health = Health::info,
                                   .found = "not on this file system",
                                   .cost = "copies of vfolders take time and space",
                                   .remedy = "XFS or Btrfs"});
  return findings;
}

Finding check_clock() {
  timex state{};
  if (adjtimex(&state) != TIME_ERROR) return {.name = "clock", .found = "kept by NTP"};
  return {.name = "clock",
          .health = Health::info,
          .found = "the kernel does not know of any NTP service",
          .cost = "tokens that expire, and times of files, are as wrong as the clock is",
          .remedy =
              "systemctl enable --now systemd-timesyncd (in a virtual machine the host may "
              "already do it)"};
}

Finding check_files_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= kFilesWanted) {
    return {.name = "open files", .found = fmt::format("up to {}", exact(limit.rlim_max))};
  }
  return {.name = "open files",
          .health = Health::worse,
          .found = fmt::format("up to {}", exact(limit.rlim_max)),
          .cost = "that many connections at most, less what files need",
          .remedy = "ulimit -Hn 1048576, or LimitNOFILE= in the service"};
}

Finding check_locked_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  constexpr rlim_t kWanted = 64 << 20;
  if (limit.rlim_cur == RLIM_INFINITY || geteuid() == 0) {
    return {.name = "locked memory", .found = "unlimited"};
  }
  if (limit.rlim_cur >= kWanted) {
    return {.name = "locked memory", .found = fmt::format("up to {}", human_size(limit.rlim_cur))};
  }
  return {.name = "locked memory",
          .health = Health::worse,
          .found = fmt::format("up to {}", human_size(limit.rlim_cur)),
          .cost = "buffers cannot be registered with io_uring: a copy more per read",
          .remedy = "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service"};
}

}  // namespace

std::vector<Finding> examine_machine(const std::string& data_folder) {
  std::vector<Finding> findings{
      check_machine(), check_io_uring(), check_huge_pages(), check_numa(),    check_gpu(),
      check_gds(),     check_cgroups(),  check_namespaces(), check_seccomp(), check_landlock()};
  for (Finding& finding : check_data_folder(data_folder)) findings.push_back(std::move(finding));
  findings.push_back(check_clock());
  findings.push_back(check_files_limit());
  findings.push_back(check_locked_memory());
  return findings;
}

}  // namespace onggi::cli
