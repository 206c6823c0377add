#include "active/sandbox/zygote.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "active/sandbox/protocol.h"
#include "active/sandbox/walls.h"
#include "base/file_descriptor.h"

namespace onggi::active {

namespace {

constexpr int kEntryFailedStatus = 125;
// By then the tasks that the node was busy with when the child was made have their workers.
constexpr int kQuietMilliseconds = 200;

std::size_t own_threads() {
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

sigset_t child_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  return set;
}

std::uint64_t microseconds(const timeval& time) {
  return (static_cast<std::uint64_t>(time.tv_sec) * 1'000'000) +
         static_cast<std::uint64_t>(time.tv_usec);
}

class Zygote {
 public:
  Zygote(const ZygoteOptions& options, WallPlan plan) : options_(options), plan_(std::move(plan)) {}

  Status open();
  // True in a worker, behind its walls.
  Result<bool> step();

 private:
  Result<bool> take_request();
  Result<bool> fork_child(const ForkRequest& request, FileDescriptor line);
  // In the child: never returns but behind the walls.
  void become_worker(const ForkRequest& request, FileDescriptor line);
  Status reap();

  const ZygoteOptions& options_;
  const WallPlan plan_;
  FileDescriptor signals_;
  FileDescriptor own_pid_namespace_;
  sigset_t former_mask_{};
  std::map<pid_t, std::uint64_t> children_;
};

Status Zygote::open() {
  const sigset_t mask = child_signal();
  if (sigprocmask(SIG_BLOCK, &mask, &former_mask_) != 0) return fail_errno("sigprocmask");
  signals_.reset(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail_errno("signalfd");
  own_pid_namespace_.reset(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  if (!own_pid_namespace_) return fail_errno("open own pid namespace");
  return send_message(options_.control_fd, MessageKind::zygote_ready, options_.information);
}

Result<bool> Zygote::step() {
  std::array<pollfd, 2> waiting = {pollfd{options_.control_fd, POLLIN, 0},
                                   pollfd{signals_.get(), POLLIN, 0}};
  if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return fail_errno("poll");
  if (waiting[1].revents != 0) RETURN_IF_ERROR(reap());
  return waiting[0].revents != 0 ? take_request() : Result<bool>(false);
}

Status Zygote::reap() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) > 0) {
  }
  int status = 0;
  rusage usage{};
  for (pid_t pid = 0; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0;) {
    const auto child = children_.find(pid);
    if (child == children_.end()) continue;
    const ChildExit exit{.child = child->second,
                         .wait_status = status,
                         .cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
                         .max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
    children_.erase(child);
    RETURN_IF_ERROR(send_message(options_.control_fd, MessageKind::child_exited, encode(exit)));
  }
  return {};
}

Result<bool> Zygote::take_request() {
  ASSIGN_OR_RETURN(auto message, receive_message(options_.control_fd));
  if (!message) return fail(ErrorCode::cancelled, "zygote: the broker has gone");
  if (message->kind != MessageKind::fork || message->descriptors.size() != 1) {
    return fail(ErrorCode::internal, "zygote: unexpected message");
  }
  ASSIGN_OR_RETURN(const ForkRequest request, decode_fork_request(message->body));
  return fork_child(request, std::move(message->descriptors[0]));
}

Result<bool> Zygote::fork_child(const ForkRequest& request, FileDescriptor line) {
  // A forked copy of a process with threads would hold locks that nobody ever gives back.
  if (const std::size_t threads = own_threads(); threads != 1) {
    return fail(ErrorCode::internal, fmt::format("zygote: {} threads, must be one", threads));
  }
  if (unshare(CLONE_NEWPID) != 0) return fail_errno("zygote: unshare pid namespace");
  options_.hooks.before();
  const pid_t pid = fork();
  if (pid == 0) {
    // Before anything else: if the zygote dies now, so do we.
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    options_.hooks.in_child();
    become_worker(request, std::move(line));
    return true;
  }
  const int fork_errno = errno;
  options_.hooks.in_parent();
  if (setns(own_pid_namespace_.get(), CLONE_NEWPID) != 0) return fail_errno("zygote: setns");
  if (pid < 0) {
    errno = fork_errno;
    return fail_errno("zygote: fork");
  }
  children_[pid] = request.child;
  // Opened here, where the number cannot have been given to another yet.
  const FileDescriptor handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!handle) return fail_errno("zygote: pidfd_open");
  const std::array<int, 1> descriptors = {handle.get()};
  FieldWriter fields;
  fields.number(request.child);
  RETURN_IF_ERROR(
      send_message(options_.control_fd, MessageKind::forked, fields.bytes(), descriptors));
  return false;
}

bool has_order(int line, int milliseconds) {
  pollfd waiting{line, POLLIN, 0};
  return poll(&waiting, 1, milliseconds) != 0;
}

Status wait_and_enter(Walls& walls, const ForkRequest& request, int line,
                      const std::function<void()>& rehearse) {
  RETURN_IF_ERROR(walls.prepare(request.cgroup_procs));
  if (!has_order(line, kQuietMilliseconds)) rehearse();
  ASSIGN_OR_RETURN(auto message, receive_message(line));
  if (!message) _exit(0);  // a spare that is not needed any more
  ASSIGN_OR_RETURN(const WorkerOrder order, decode_worker_order(message->body));
  ASSIGN_OR_RETURN(WorkerDescriptors descriptors, take_descriptors(order, *message));
  return walls.enter(order, std::move(descriptors));
}

void Zygote::become_worker(const ForkRequest& request, FileDescriptor line) {
  signals_.reset();
  own_pid_namespace_.reset();
  close(options_.control_fd);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  Walls walls(plan_);
  const int line_fd = line.release();  // closed by the walls
  if (auto status = wait_and_enter(walls, request, line_fd, options_.rehearse); !status) {
    const std::string& text = status.error().message();
    static_cast<void>(send_message(line_fd, MessageKind::entry_failed, text));
    // Once the walls have closed that line, standard error is the worker's log.
    static_cast<void>(write(STDERR_FILENO, text.data(), text.size()));
    _exit(kEntryFailedStatus);
  }
  sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
}

}  // namespace

Status serve_zygote(const ZygoteOptions& options) {
  if (geteuid() != 0) RETURN_IF_ERROR(gain_rights());
  ASSIGN_OR_RETURN(WallPlan plan, make_wall_plan(options.binds));
  Zygote zygote(options, std::move(plan));
  RETURN_IF_ERROR(zygote.open());
  while (true) {
    ASSIGN_OR_RETURN(const bool in_worker, zygote.step());
    if (in_worker) return {};
  }
}

void report_zygote_failure(int control_fd, const std::string& text) {
  static_cast<void>(send_message(control_fd, MessageKind::zygote_failed, text));
}

}  // namespace onggi::active
