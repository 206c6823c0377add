#include "active/sandbox/seccomp_filter.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>

#include <asm/ioctls.h>
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace onggi::active {

namespace {

// ioctl's command is 32 bits wide in the kernel, whatever the register's upper half holds.
constexpr std::uint64_t kLowHalf = 0xffffffff;
constexpr std::uint64_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                          CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                          CLONE_NEWNET | 0x80 /* CLONE_NEWTIME */ | CLONE_PTRACE;

struct ReleaseContext {
  void operator()(void* context) const { seccomp_release(context); }
};
using Context = std::unique_ptr<void, ReleaseContext>;

struct Rule {
  const char* name;
  std::vector<scmp_arg_cmp> arguments;
};

Status add(const Context& context, std::uint32_t action, const Rule& rule) {
  const int number = seccomp_syscall_resolve_name(rule.name);
  if (number == __NR_SCMP_ERROR) return {};  // this libseccomp is older than the call: stays denied
  const int result =
      seccomp_rule_add_array(context.get(), action, number,
                             static_cast<unsigned>(rule.arguments.size()), rule.arguments.data());
  if (result != 0) {
    return fail(ErrorCode::internal, fmt::format("seccomp: rule for {}: {}", rule.name, -result));
  }
  return {};
}

// Calls that are harmless only with certain arguments.
std::vector<Rule> conditional_rules() {
  std::vector<Rule> rules;
  for (const std::uint64_t command : {TCGETS, FIOCLEX, FIONCLEX, FIONBIO, FIONREAD}) {
    rules.push_back({"ioctl", {SCMP_A1(SCMP_CMP_MASKED_EQ, kLowHalf, command)}});
  }
  for (const std::uint64_t option : {PR_SET_NAME, PR_GET_NAME, PR_SET_PDEATHSIG, PR_GET_DUMPABLE}) {
    rules.push_back({"prctl", {SCMP_A0(SCMP_CMP_MASKED_EQ, kLowHalf, option)}});
  }
  rules.push_back({"clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaceFlags, 0)}});
  rules.push_back({"socketpair", {SCMP_A0(SCMP_CMP_MASKED_EQ, kLowHalf, AF_UNIX)}});
  // Only one's own limits.
  rules.push_back({"prlimit64", {SCMP_A0(SCMP_CMP_MASKED_EQ, kLowHalf, 0)}});
  return rules;
}

Result<std::vector<sock_filter>> read_program(const Context& context) {
  const FileDescriptor file(memfd_create("seccomp", MFD_CLOEXEC));
  if (!file) return fail_errno("seccomp: memfd");
  if (seccomp_export_bpf(context.get(), file.get()) != 0) {
    return fail(ErrorCode::internal, "seccomp: cannot export the filter");
  }
  const off_t size = lseek(file.get(), 0, SEEK_END);
  std::vector<sock_filter> program(static_cast<std::size_t>(size) / sizeof(sock_filter));
  if (program.empty() ||
      pread(file.get(), program.data(), static_cast<std::size_t>(size), 0) != size) {
    return fail(ErrorCode::internal, "seccomp: cannot read the filter");
  }
  return program;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a list
std::vector<std::string> allowed_system_calls() {
  return {
      // memory
      "brk",
      "mmap",
      "munmap",
      "mremap",
      "mprotect",
      "madvise",
      "msync",
      "membarrier",
      // files: what the mounts and Landlock leave of them
      "read",
      "write",
      "readv",
      "writev",
      "pread64",
      "pwrite64",
      "preadv",
      "pwritev",
      "preadv2",
      "pwritev2",
      "open",
      "openat",
      "openat2",
      "close",
      "close_range",
      "creat",
      "stat",
      "fstat",
      "lstat",
      "newfstatat",
      "statx",
      "statfs",
      "fstatfs",
      "access",
      "faccessat",
      "faccessat2",
      "lseek",
      "getdents",
      "getdents64",
      "readlink",
      "readlinkat",
      "getcwd",
      "chdir",
      "fchdir",
      "mkdir",
      "mkdirat",
      "rmdir",
      "unlink",
      "unlinkat",
      "rename",
      "renameat",
      "renameat2",
      "link",
      "linkat",
      "symlink",
      "symlinkat",
      "chmod",
      "fchmod",
      "fchmodat",
      "umask",
      "truncate",
      "ftruncate",
      "fallocate",
      "fadvise64",
      "readahead",
      "fsync",
      "fdatasync",
      "sync_file_range",
      "utime",
      "utimes",
      "utimensat",
      "futimesat",
      "flock",
      "fcntl",
      "dup",
      "dup2",
      "dup3",
      "sendfile",
      "copy_file_range",
      "getxattr",
      "lgetxattr",
      "fgetxattr",
      "listxattr",
      "llistxattr",
      "flistxattr",
      // descriptors and waiting
      "pipe",
      "pipe2",
      "eventfd",
      "eventfd2",
      "timerfd_create",
      "timerfd_settime",
      "timerfd_gettime",
      "signalfd",
      "signalfd4",
      "epoll_create",
      "epoll_create1",
      "epoll_ctl",
      "epoll_wait",
      "epoll_pwait",
      "epoll_pwait2",
      "poll",
      "ppoll",
      "select",
      "pselect6",
      // the one socket, and pairs of one's own
      "sendto",
      "recvfrom",
      "sendmsg",
      "recvmsg",
      "shutdown",
      "getsockopt",
      "getsockname",
      "getpeername",
      // processes and threads of one's own
      "fork",
      "vfork",
      "exit",
      "exit_group",
      "wait4",
      "waitid",
      "kill",
      "tkill",
      "tgkill",
      "getpid",
      "getppid",
      "gettid",
      "getpgrp",
      "getpgid",
      "getsid",
      "setpgid",
      "setsid",
      "getuid",
      "geteuid",
      "getgid",
      "getegid",
      "getgroups",
      "getresuid",
      "getresgid",
      "set_tid_address",
      "set_robust_list",
      "get_robust_list",
      "rseq",
      "futex",
      "futex_waitv",
      "sched_yield",
      "sched_getaffinity",
      "sched_setaffinity",
      "sched_getparam",
      "sched_getscheduler",
      "sched_get_priority_max",
      "sched_get_priority_min",
      "getpriority",
      "getrlimit",
      "setrlimit",
      "getrusage",
      "times",
      "getcpu",
      // signals
      "rt_sigaction",
      "rt_sigprocmask",
      "rt_sigreturn",
      "rt_sigsuspend",
      "rt_sigpending",
      "rt_sigtimedwait",
      "rt_sigqueueinfo",
      "sigaltstack",
      "pause",
      "alarm",
      "getitimer",
      "setitimer",
      "restart_syscall",
      // time, randomness, facts
      "nanosleep",
      "clock_nanosleep",
      "clock_gettime",
      "clock_getres",
      "gettimeofday",
      "time",
      "timer_create",
      "timer_settime",
      "timer_gettime",
      "timer_getoverrun",
      "timer_delete",
      "getrandom",
      "uname",
      "sysinfo",
  };
}

std::vector<int> allowed_system_call_numbers() {
  std::set<int> numbers;
  for (const std::string& name : allowed_system_calls()) {
    numbers.insert(seccomp_syscall_resolve_name(name.c_str()));
  }
  for (const Rule& rule : conditional_rules()) {
    numbers.insert(seccomp_syscall_resolve_name(rule.name));
  }
  numbers.erase(__NR_SCMP_ERROR);
  return {numbers.begin(), numbers.end()};
}

Result<std::vector<sock_filter>> compile_seccomp_filter() {
  const Context context(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!context) return fail(ErrorCode::internal, "seccomp: cannot make a filter");
  seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  for (const std::string& name : allowed_system_calls()) {
    RETURN_IF_ERROR(add(context, SCMP_ACT_ALLOW, {name.c_str(), {}}));
  }
  for (const Rule& rule : conditional_rules()) {
    RETURN_IF_ERROR(add(context, SCMP_ACT_ALLOW, rule));
  }
  // Its flags lie in memory, out of the filter's sight; glibc falls back to clone.
  RETURN_IF_ERROR(add(context, SCMP_ACT_ERRNO(ENOSYS), {"clone3", {}}));
  return read_program(context);
}

Status load_seccomp_filter(const std::vector<sock_filter>& filter) {
  sock_fprog program{.len = static_cast<std::uint16_t>(filter.size()),
                     .filter = const_cast<sock_filter*>(filter.data())};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    return fail_errno("seccomp: load");
  }
  return {};
}

}  // namespace onggi::active
