#include "active/sandbox/broker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "active/sandbox/abilities.h"
#include "active/sandbox/cgroups.h"
#include "active/sandbox/mounts.h"
#include "active/sandbox/protocol.h"
#include "active/sandbox/zygote.h"
#include "base/file_descriptor.h"

namespace onggi::active {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kZygoteControlFd = 3;
constexpr std::size_t kSparesMax = 16;
constexpr std::size_t kChildrenMax = 1024;
constexpr std::size_t kOwnerMapsMax = 256;
// Spares are forked a little after one was taken, so that the fork does not slow the start that
// took it.
constexpr milliseconds kRefillDelay{30};
constexpr milliseconds kWatchPeriod{100};
// Some uid that no worker gets, for the probe.
constexpr std::uint32_t kProbeUid = 199'999;

struct Profile {
  StartProfile settings;
  pid_t pid = -1;
  FileDescriptor control;
  bool ready = false;
};

// A process that a zygote forked, or was asked to fork: a spare until it gets an order.
struct Child {
  std::uint64_t id = 0;
  std::string profile;
  FileDescriptor process;  // pidfd; known once the zygote has said so
  FileDescriptor line;
  std::unique_ptr<Cgroup> cgroup;
  std::optional<WorkerOrder> order;
  steady_clock::time_point deadline;
  ExitReason reason = ExitReason::itself;
  std::string text;
};

// As pid 1 of its pid namespace it takes all its descendants along.
void kill_process(const Child& child) {
  if (child.process) syscall(SYS_pidfd_send_signal, child.process.get(), SIGKILL, nullptr, 0);
}

Status set_nonblocking(int socket) {
  if (fcntl(socket, F_SETFL, O_NONBLOCK) != 0) return fail_errno("fcntl");
  return {};
}

bool nothing_waits(const Result<std::optional<Message>>& message) {
  return !message && message.error().code() == ErrorCode::unavailable;
}

class Broker {
 public:
  explicit Broker(const BrokerOptions& options) : options_(options) {}
  Status open();
  // False once the daemon has gone.
  Result<bool> step();
  void kill_all();

 private:
  Status take_from_daemon(Message message);
  Status start_profile(StartProfile settings);
  Status spawn(Message message);
  void kill_worker(std::uint64_t worker);
  Status make_mounts(const WorkerOrder& order, Message& message);
  int owner_map(int directory, std::uint32_t uid);

  void take_from_zygote(Profile& profile);
  void zygote_lost(Profile& profile, const std::string& text);
  void child_ended(const ChildExit& exit);
  void end_child(std::list<Child>::iterator child, const ChildExit& exit);
  void take_from_child(Child& child);

  Result<Child*> request_child(Profile& profile);
  Result<Child*> spare_of(Profile& profile);
  void refill();
  void watch();
  void reap();

  [[noreturn]] void become_native_zygote(int control);
  [[noreturn]] static void become_program(const StartProfile& settings, int control);

  Profile* find_profile(const std::string& name);
  Child* find_child(std::uint64_t id);
  void tell_daemon(MessageKind kind, const std::string& body);
  void kill_child(Child& child, ExitReason reason);

  const BrokerOptions& options_;
  std::unique_ptr<CgroupTree> cgroups_;
  FileDescriptor signals_;
  sigset_t former_mask_{};
  std::list<Profile> profiles_;
  std::list<Child> children_;
  // User namespaces by owner, group and worker's uid.
  std::map<std::array<std::uint32_t, 3>, FileDescriptor> owner_maps_;
  std::uint64_t next_child_ = 1;
  steady_clock::time_point refill_at_ = steady_clock::time_point::max();
  steady_clock::time_point watch_at_;
  bool daemon_gone_ = false;
};

Status Broker::open() {
  prctl(PR_SET_NAME, "onggi-broker", 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  std::signal(SIGPIPE, SIG_IGN);
  // A terminal's ctrl-C is for the daemon, which then closes our socket.
  std::signal(SIGINT, SIG_IGN);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  cgroups_ = std::make_unique<CgroupTree>();
  const SandboxAbilities abilities = probe_abilities(*cgroups_, kProbeUid);
  if (sigprocmask(SIG_BLOCK, &mask, &former_mask_) != 0) return fail_errno("sigprocmask");
  signals_.reset(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail_errno("signalfd");
  if (fcntl(options_.daemon_fd, F_SETFD, FD_CLOEXEC) != 0) return fail_errno("fcntl");
  watch_at_ = steady_clock::now() + kWatchPeriod;
  return send_message(options_.daemon_fd, MessageKind::hello, encode(abilities));
}

void Broker::tell_daemon(MessageKind kind, const std::string& body) {
  if (!send_message(options_.daemon_fd, kind, body)) daemon_gone_ = true;
}

Profile* Broker::find_profile(const std::string& name) {
  const auto found = std::ranges::find_if(
      profiles_, [&](const Profile& profile) { return profile.settings.name == name; });
  return found == profiles_.end() ? nullptr : &*found;
}

Child* Broker::find_child(std::uint64_t id) {
  const auto found = std::ranges::find_if(children_, [&](const Child& c) { return c.id == id; });
  return found == children_.end() ? nullptr : &*found;
}

Result<bool> Broker::step() {
  std::vector<pollfd> waiting = {{options_.daemon_fd, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  std::vector<std::string> names;
  for (const Profile& profile : profiles_) {
    waiting.push_back({profile.control.get(), POLLIN, 0});
    names.push_back(profile.settings.name);
  }
  const std::size_t lines_at = waiting.size();
  std::vector<std::uint64_t> ids;
  for (const Child& child : children_) {
    if (!child.line) continue;
    waiting.push_back({child.line.get(), POLLIN, 0});
    ids.push_back(child.id);
  }
  const auto until = std::min(refill_at_, watch_at_) - steady_clock::now();
  const auto timeout = std::chrono::ceil<milliseconds>(until).count();
  const int wait_ms = static_cast<int>(std::clamp<std::int64_t>(timeout, 0, kWatchPeriod.count()));
  if (poll(waiting.data(), waiting.size(), wait_ms) < 0 && errno != EINTR)
    return fail_errno("poll");
  if (waiting[0].revents != 0) {
    auto message = receive_message(options_.daemon_fd);
    if (!message) return tl::unexpected(message.error());
    if (!*message) return false;
    RETURN_IF_ERROR(take_from_daemon(std::move(**message)));
  }
  for (std::size_t i = lines_at; i < waiting.size(); ++i) {
    Child* child = waiting[i].revents == 0 ? nullptr : find_child(ids[i - lines_at]);
    if (child != nullptr) take_from_child(*child);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    Profile* profile = waiting[i + 2].revents == 0 ? nullptr : find_profile(names[i]);
    if (profile != nullptr) take_from_zygote(*profile);
  }
  if (waiting[1].revents != 0) reap();
  if (steady_clock::now() >= watch_at_) watch();
  if (steady_clock::now() >= refill_at_) refill();
  return !daemon_gone_;
}

Status Broker::take_from_daemon(Message message) {
  switch (message.kind) {
    case MessageKind::start_profile: {
      ASSIGN_OR_RETURN(StartProfile settings, decode_start_profile(message.body));
      return start_profile(std::move(settings));
    }
    case MessageKind::spawn:
      return spawn(std::move(message));
    case MessageKind::kill:
      kill_worker(FieldReader(message.body).number());
      return {};
    default:
      return fail(ErrorCode::internal, "broker: unexpected message");
  }
}

Status Broker::start_profile(StartProfile settings) {
  if (find_profile(settings.name) != nullptr) return {};
  ASSIGN_OR_RETURN(auto ends, make_socket_pair());
  const pid_t pid = fork();
  if (pid < 0) return fail_errno("broker: fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
    if (settings.argv.empty()) become_native_zygote(ends.second.get());
    become_program(settings, ends.second.get());
  }
  // We must never wait for a child: full sockets refuse.
  RETURN_IF_ERROR(set_nonblocking(ends.first.get()));
  Profile profile;
  profile.pid = pid;
  profile.control = std::move(ends.first);
  profile.settings = std::move(settings);
  profile.settings.spares = std::min<std::uint64_t>(profile.settings.spares, kSparesMax);
  profiles_.push_back(std::move(profile));
  refill_at_ = steady_clock::now();
  return {};
}

void Broker::become_native_zygote(int control) {
  prctl(PR_SET_NAME, "onggi-native", 0, 0, 0);
  dup2(control, kZygoteControlFd);
  syscall(SYS_close_range, kZygoteControlFd + 1, ~0U, 0);
  ZygoteOptions options;
  options.control_fd = kZygoteControlFd;
  options.information = R"({"onggi-native":"1"})";
  if (const Status status = serve_zygote(options); !status) {
    if (status.error().code() != ErrorCode::cancelled) {
      report_zygote_failure(kZygoteControlFd, status.error().message());
    }
    _exit(1);
  }
  _exit(options_.native_worker());
}

void Broker::become_program(const StartProfile& settings, int control) {
  std::vector<char*> argv;
  std::vector<char*> environment;
  for (const std::string& text : settings.argv) argv.push_back(const_cast<char*>(text.c_str()));
  for (const std::string& text : settings.environment) {
    environment.push_back(const_cast<char*>(text.c_str()));
  }
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  dup2(control, kZygoteControlFd);
  fcntl(kZygoteControlFd, F_SETFD, 0);
  const int null = ::open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  syscall(SYS_close_range, kZygoteControlFd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execve(argv[0], argv.data(), environment.data());
  report_zygote_failure(kZygoteControlFd,
                        fmt::format("cannot run {}: {}", settings.argv[0], strerror(errno)));
  _exit(127);
}

Result<Child*> Broker::request_child(Profile& profile) {
  if (children_.size() >= kChildrenMax) {
    return fail(ErrorCode::resource_exhausted, "broker: too many workers");
  }
  ASSIGN_OR_RETURN(auto ends, make_socket_pair());
  Child child;
  child.id = next_child_++;
  child.profile = profile.settings.name;
  child.line = std::move(ends.first);
  RETURN_IF_ERROR(set_nonblocking(child.line.get()));
  ASSIGN_OR_RETURN(child.cgroup, cgroups_->make(child.id));
  const ForkRequest request{.child = child.id, .cgroup_procs = child.cgroup->procs_files()};
  const std::array<int, 1> descriptors = {ends.second.get()};
  RETURN_IF_ERROR(
      send_message(profile.control.get(), MessageKind::fork, encode(request), descriptors));
  children_.push_back(std::move(child));
  return &children_.back();
}

Result<Child*> Broker::spare_of(Profile& profile) {
  const auto spare = std::ranges::find_if(children_, [&](const Child& child) {
    return !child.order && child.line && child.profile == profile.settings.name;
  });
  if (spare != children_.end()) return &*spare;
  return request_child(profile);
}

Status Broker::spawn(Message message) {
  ASSIGN_OR_RETURN(WorkerOrder order, decode_worker_order(message.body));
  order.limits.memory_by_rlimit = !cgroups_->has("memory");
  const auto refuse = [&](ExitReason reason, std::string text) {
    tell_daemon(
        MessageKind::exited,
        encode(WorkerExit{.worker = order.worker, .reason = reason, .text = std::move(text)}));
  };
  Profile* profile = find_profile(order.profile);
  if (profile == nullptr) {
    refuse(ExitReason::profile_lost, fmt::format("the profile {} does not run", order.profile));
    return {};
  }
  auto child = spare_of(*profile);
  if (!child) {
    refuse(ExitReason::profile_lost, child.error().message());
    return {};
  }
  Status sent = (*child)->cgroup->set_limits(order.limits);
  if (sent && geteuid() == 0) sent = make_mounts(order, message);
  std::vector<int> descriptors;
  for (const FileDescriptor& d : message.descriptors) descriptors.push_back(d.get());
  if (sent) {
    sent = send_message((*child)->line.get(), MessageKind::spawn, encode(order), descriptors);
  }
  (*child)->order = order;
  (*child)->deadline = steady_clock::now() + milliseconds(order.limits.wall_ms);
  if (!sent) {
    (*child)->text = sent.error().message();
    kill_child(**child, ExitReason::entry_failed);
  }
  refill_at_ = std::min(refill_at_, steady_clock::now() + kRefillDelay);
  return {};
}

// Puts mounts in the place of the directories that came with an order.
Status Broker::make_mounts(const WorkerOrder& order, Message& message) {
  const std::size_t count = message.descriptors.size();
  for (std::size_t i = count - std::min(count, order.mount_paths.size()); i < count; ++i) {
    FileDescriptor& directory = message.descriptors[i];
    ASSIGN_OR_RETURN(FileDescriptor mount,
                     clone_read_only_mount(directory.get(), owner_map(directory.get(), order.uid)));
    directory = std::move(mount);
  }
  return {};
}

// -1 where it cannot be made: then the files' own modes decide.
int Broker::owner_map(int directory, std::uint32_t uid) {
  struct stat status{};
  if (fstat(directory, &status) != 0) return -1;
  const std::array<std::uint32_t, 3> key = {status.st_uid, status.st_gid, uid};
  const auto found = owner_maps_.find(key);
  if (found != owner_maps_.end()) return found->second.get();
  auto map = make_owner_map(directory, uid);
  if (owner_maps_.size() >= kOwnerMapsMax) owner_maps_.clear();
  return owner_maps_.emplace(key, map ? std::move(*map) : FileDescriptor()).first->second.get();
}

void Broker::kill_child(Child& child, ExitReason reason) {
  if (child.reason == ExitReason::itself) child.reason = reason;
  child.line.reset();  // one that was not forked yet ends when it looks here
  kill_process(child);
}

void Broker::kill_worker(std::uint64_t worker) {
  for (Child& child : children_) {
    if (child.order && child.order->worker == worker) kill_child(child, ExitReason::killed);
  }
}

void Broker::take_from_child(Child& child) {
  auto message = receive_message(child.line.get());
  if (nothing_waits(message)) return;
  if (message && *message && (*message)->kind == MessageKind::entry_failed) {
    child.text = (*message)->body;
    child.reason = ExitReason::entry_failed;
    return;
  }
  // Closed: it is behind its walls, or dead, which the zygote will tell.
  child.line.reset();
}

void Broker::take_from_zygote(Profile& profile) {
  auto message = receive_message(profile.control.get());
  if (nothing_waits(message)) return;
  if (!message || !*message) {
    zygote_lost(profile, "its warm parent died; the node's log says why");
    return;
  }
  Message& m = **message;
  if (m.kind == MessageKind::zygote_ready) {
    profile.ready = true;
    FieldWriter fields;
    fields.text(profile.settings.name).text(m.body);
    tell_daemon(MessageKind::profile_ready, fields.bytes());
  } else if (m.kind == MessageKind::zygote_failed) {
    zygote_lost(profile, m.body);
  } else if (m.kind == MessageKind::forked) {
    FieldReader fields(m.body);
    Child* child = find_child(fields.number());
    if (child == nullptr || !fields.ok() || m.descriptors.size() != 1) return;
    child->process = std::move(m.descriptors[0]);
    const bool wanted =
        child->reason == ExitReason::itself || child->reason == ExitReason::entry_failed;
    if (!wanted) kill_process(*child);
  } else if (m.kind == MessageKind::child_exited) {
    if (const auto exit = decode_child_exit(m.body)) child_ended(*exit);
  }
}

void Broker::zygote_lost(Profile& profile, const std::string& text) {
  const std::string name = profile.settings.name;
  kill(profile.pid, SIGKILL);
  FieldWriter fields;
  fields.text(name).text(text);
  tell_daemon(MessageKind::profile_failed, fields.bytes());
  for (auto it = children_.begin(); it != children_.end();) {
    const auto child = it++;
    if (child->profile != name) continue;
    kill_process(*child);
    child->reason = ExitReason::profile_lost;
    child->text = text;
    end_child(child, ChildExit{});
  }
  profiles_.remove_if([&](const Profile& p) { return p.settings.name == name; });
}

void Broker::child_ended(const ChildExit& exit) {
  const auto child =
      std::ranges::find_if(children_, [&](const Child& c) { return c.id == exit.child; });
  if (child == children_.end()) return;
  if (child->line) take_from_child(*child);  // its last words may still lie there
  end_child(child, exit);
}

void Broker::end_child(std::list<Child>::iterator child, const ChildExit& exit) {
  if (child->order) {
    if (child->reason == ExitReason::itself && child->cgroup->memory_kills() > 0) {
      child->reason = ExitReason::memory;
    }
    const WorkerExit report{.worker = child->order->worker,
                            .reason = child->reason,
                            .wait_status = exit.wait_status,
                            .cpu_us = std::max(exit.cpu_us, child->cgroup->cpu_us()),
                            .max_rss_bytes = exit.max_rss_bytes,
                            .text = child->text};
    tell_daemon(MessageKind::exited, encode(report));
  } else if (!child->text.empty()) {
    // A spare that cannot build its walls: making more of them would not help.
    for (Profile& profile : profiles_) {
      if (profile.settings.name == child->profile) profile.settings.spares = 0;
    }
  }
  children_.erase(child);
}

void Broker::refill() {
  refill_at_ = steady_clock::time_point::max();
  for (Profile& profile : profiles_) {
    const auto spares = std::ranges::count_if(children_, [&](const Child& child) {
      return !child.order && child.profile == profile.settings.name;
    });
    if (std::cmp_greater_equal(spares, profile.settings.spares)) continue;
    if (!request_child(profile)) continue;
    // One at a time, so that orders are not kept waiting behind forks.
    refill_at_ = steady_clock::now() + milliseconds(5);
  }
}

void Broker::watch() {
  const auto now = steady_clock::now();
  watch_at_ = now + kWatchPeriod;
  for (Child& child : children_) {
    if (!child.order || child.reason != ExitReason::itself) continue;
    if (now >= child.deadline) {
      kill_child(child, ExitReason::wall_time);
    } else if (child.cgroup->cpu_us() > child.order->limits.cpu_seconds * 1'000'000) {
      kill_child(child, ExitReason::cpu_time);
    }
  }
}

void Broker::reap() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) > 0) {
  }
  // Zygotes, and what dead zygotes left to us. Their ends are seen at their sockets.
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void Broker::kill_all() {
  for (const Profile& profile : profiles_) kill(profile.pid, SIGKILL);
  for (const Child& child : children_) kill_process(child);
  // As subreaper we inherit whom the zygotes leave.
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  children_.clear();
}

}  // namespace

Status run_broker(const BrokerOptions& options) {
  Broker broker(options);
  RETURN_IF_ERROR(broker.open());
  Status status;
  while (true) {
    const auto more = broker.step();
    if (more && *more) continue;
    if (!more) status = tl::unexpected(more.error());
    break;
  }
  broker.kill_all();
  return status;
}

}  // namespace onggi::active
