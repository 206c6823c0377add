#include "active/sandbox/walls.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "active/sandbox/landlock.h"
#include "active/sandbox/mounts.h"
#include "active/sandbox/seccomp_filter.h"

namespace onggi::active {

namespace {

constexpr int kFirstFreeFd = 5;
constexpr rlim_t kFilesMax = 1024;
constexpr const char* kOomScore = "800";  // the machine's own OOM killer takes workers first

Status write_file(int directory, const char* name, std::string_view text) {
  const FileDescriptor file(openat(directory, name, O_WRONLY | O_CLOEXEC));
  if (!file) return fail_errno(fmt::format("open {}", name));
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail_errno(fmt::format("write {}", name));
  }
  return {};
}

Status write_maps(int proc_self, std::uint32_t uid, std::uint32_t gid) {
  RETURN_IF_ERROR(write_file(proc_self, "setgroups", "deny"));
  RETURN_IF_ERROR(write_file(proc_self, "uid_map", fmt::format("{} {} 1\n", uid, uid)));
  return write_file(proc_self, "gid_map", fmt::format("{} {} 1\n", gid, gid));
}

Result<FileDescriptor> open_proc_self() {
  FileDescriptor directory(open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail_errno("open /proc/self");
  return directory;
}

Status drop_capabilities() {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return fail_errno("drop capability");
  }
  static_cast<void>(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
  __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> none{};
  if (syscall(SYS_capset, &head, none.data()) != 0) return fail_errno("capset");
  return {};
}

Status limit(__rlimit_resource resource, rlim_t most) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return fail_errno("getrlimit");
  const rlim_t value = std::min(most, now.rlim_max);
  const rlimit wanted{.rlim_cur = value, .rlim_max = value};
  if (setrlimit(resource, &wanted) != 0) return fail_errno("setrlimit");
  return {};
}

// Bytes of private writable memory mapped now: what RLIMIT_DATA counts.
rlim_t data_bytes() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  for (int field = 0; field < 6; ++field) statm >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

Status set_limits(const WorkerLimits& limits) {
  if (limits.memory_by_rlimit) {
    RETURN_IF_ERROR(limit(RLIMIT_DATA, data_bytes() + limits.memory_bytes));
  }
  // The broker counts the CPU time of all a worker's processes; this holds each one besides.
  RETURN_IF_ERROR(limit(RLIMIT_CPU, limits.cpu_seconds + 1));
  RETURN_IF_ERROR(limit(RLIMIT_FSIZE, std::max(limits.tmp_bytes, limits.memory_bytes)));
  RETURN_IF_ERROR(limit(RLIMIT_NPROC, limits.processes));
  RETURN_IF_ERROR(limit(RLIMIT_NOFILE, kFilesMax));
  RETURN_IF_ERROR(limit(RLIMIT_CORE, 0));
  RETURN_IF_ERROR(limit(RLIMIT_MEMLOCK, 0));
  RETURN_IF_ERROR(limit(RLIMIT_MSGQUEUE, 0));
  RETURN_IF_ERROR(limit(RLIMIT_RTPRIO, 0));
  RETURN_IF_ERROR(limit(RLIMIT_SIGPENDING, kFilesMax));
  return limit(RLIMIT_STACK, 64ULL << 20);
}

// 0 to 4 as documented in order.h, and nothing else.
Status place_descriptors(WorkerDescriptors descriptors) {
  FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) return fail_errno("open /dev/null");
  std::array<FileDescriptor*, kFirstFreeFd> wanted = {&null, &descriptors.out, &descriptors.err,
                                                      &descriptors.socket, &descriptors.arena};
  // First out of the way of the numbers they will get.
  for (FileDescriptor* descriptor : wanted) {
    const int moved = fcntl(descriptor->get(), F_DUPFD_CLOEXEC, 16);
    if (moved < 0) return fail_errno("dup");
    descriptor->reset(moved);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (dup2(wanted.at(i)->get(), static_cast<int>(i)) < 0) return fail_errno("dup2");
    // They are closed with all the others below.
    static_cast<void>(wanted.at(i)->release());
  }
  for (FileDescriptor& mount : descriptors.mounts) static_cast<void>(mount.release());
  return {};
}

bool overlaps(std::string_view path, std::string_view other) {
  return path == other || (other.starts_with(path) && other[path.size()] == '/');
}

Status check_mount_path(const std::string& path, const std::vector<std::string>& binds) {
  if (path.size() < 2 || path[0] != '/') {
    return fail(ErrorCode::invalid_argument, fmt::format("cannot mount at {}", path));
  }
  for (const char* reserved : {"/proc", "/dev", "/tmp", "/.old"}) {
    if (path == reserved ||
        (path != "/tmp" && std::string_view(reserved) != "/tmp" && overlaps(reserved, path))) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} is reserved in the sandbox", path));
    }
  }
  for (const std::string& bind : binds) {
    if (overlaps(path, bind)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("a mount at {} would hide {}, which the worker needs", path, bind));
    }
  }
  return {};
}

}  // namespace

Result<WallPlan> make_wall_plan(std::vector<std::string> binds) {
  WallPlan plan;
  for (const char* path : {"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin",
                           "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"}) {
    binds.emplace_back(path);
  }
  plan.binds = std::move(binds);
  plan.privileged = geteuid() == 0;
  ASSIGN_OR_RETURN(plan.filter, compile_seccomp_filter());
  return plan;
}

Status gain_rights() {
  const std::uint32_t uid = geteuid();
  const std::uint32_t gid = getegid();
  ASSIGN_OR_RETURN(const FileDescriptor proc_self, open_proc_self());
  if (unshare(CLONE_NEWUSER) != 0) return fail_errno("unshare user namespace");
  return write_maps(proc_self.get(), uid, gid);
}

Status Walls::prepare(const std::vector<std::string>& cgroup_procs) {
  for (const std::string& path : cgroup_procs) {
    RETURN_IF_ERROR(write_file(AT_FDCWD, path.c_str(), "0"));
  }
  ASSIGN_OR_RETURN(proc_self_, open_proc_self());
  static_cast<void>(write_file(proc_self_.get(), "oom_score_adj", kOomScore));
  if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) != 0) {
    return fail_errno("unshare namespaces");
  }
  umask(022);
  return build_root(plan_.binds, !plan_.privileged);
}

Status Walls::attach(const WorkerOrder& order, const WorkerDescriptors& descriptors) {
  const std::uint32_t uid = order.uid == 0 ? geteuid() : order.uid;
  RETURN_IF_ERROR(mount_tmp(uid, order.limits.tmp_bytes));
  for (std::size_t i = 0; i < descriptors.mounts.size(); ++i) {
    const std::string& path = order.mount_paths[i];
    RETURN_IF_ERROR(check_mount_path(path, plan_.binds));
    const int mount = descriptors.mounts[i].get();
    RETURN_IF_ERROR(plan_.privileged ? attach_mount(mount, path) : attach_by_name(mount, path));
  }
  if (!plan_.privileged) RETURN_IF_ERROR(drop_old_root());
  RETURN_IF_ERROR(make_directories(order.cwd));
  RETURN_IF_ERROR(seal_root());
  static constexpr std::string_view kHost = "worker";
  static_cast<void>(sethostname(kHost.data(), kHost.size()));
  if (chdir(order.cwd.c_str()) != 0) return fail_errno(fmt::format("chdir {}", order.cwd));
  return {};
}

Status Walls::become(std::uint32_t uid) {
  if (uid != 0) {
    if (setgroups(0, nullptr) != 0) return fail_errno("setgroups");
    if (setresgid(uid, uid, uid) != 0) return fail_errno("setresgid");
    if (setresuid(uid, uid, uid) != 0) return fail_errno("setresuid");
  }
  // Changing identity made our /proc files root's; the maps must be written by ourselves.
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return fail_errno("prctl dumpable");
  const std::uint32_t own_uid = geteuid();
  const std::uint32_t own_gid = getegid();
  if (unshare(CLONE_NEWUSER) != 0) return fail_errno("unshare user namespace");
  RETURN_IF_ERROR(write_maps(proc_self_.get(), own_uid, own_gid));
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return fail_errno("prctl dumpable");
  // Changes of identity clear this.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return fail_errno("prctl pdeathsig");
  return {};
}

Status Walls::enter(const WorkerOrder& order, WorkerDescriptors descriptors) {
  if (plan_.privileged && order.uid == 0) {
    return fail(ErrorCode::internal, "a worker of root's must get an identity of its own");
  }
  RETURN_IF_ERROR(attach(order, descriptors));
  RETURN_IF_ERROR(become(order.uid));
  proc_self_.reset();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("prctl no_new_privs");
  RETURN_IF_ERROR(restrict_with_landlock({"/tmp"}, {"/dev/null", "/dev/zero", "/dev/full"}));
  RETURN_IF_ERROR(drop_capabilities());
  RETURN_IF_ERROR(place_descriptors(std::move(descriptors)));
  RETURN_IF_ERROR(set_limits(order.limits));
  if (syscall(SYS_close_range, kFirstFreeFd, ~0U, 0) != 0) return fail_errno("close_range");
  return load_seccomp_filter(plan_.filter);
}

}  // namespace onggi::active
