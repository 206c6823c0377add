#include "active/sandbox/broker_client.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"

namespace onggi::active {

namespace {

using std::chrono::milliseconds;

constexpr int kBrokerFd = 3;
constexpr milliseconds kRestartDelay{200};
constexpr milliseconds kRestartDelayMax{10'000};
constexpr timeval kSendTimeout{.tv_sec = 2, .tv_usec = 0};

// A child with our end of the socket as its descriptor 3 and an environment without our secrets.
Result<pid_t> spawn_program(const std::string& program, int end) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // dup2 of a number onto itself would leave it close-on-exec.
  const FileDescriptor moved(fcntl(end, F_DUPFD_CLOEXEC, kBrokerFd + 1));
  posix_spawn_file_actions_adddup2(&actions, moved.get(), kBrokerFd);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  std::string name = program;
  std::array<char*, 2> argv = {name.data(), nullptr};
  std::array<char*, 2> environment = {path.data(), nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return fail(ErrorCode::unavailable,
                fmt::format("cannot start the broker {}: {}", program, strerror(error)));
  }
  return pid;
}

class Client final : public BrokerClient {
 public:
  Client(std::string program, BrokerEvents events)
      : program_(std::move(program)), events_(std::move(events)) {}
  ~Client() override;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Status open();
  Status start_profile(const StartProfile& profile) override;
  Status spawn(const WorkerOrder& order, const WorkerDescriptors& descriptors) override;
  Status kill(std::uint64_t worker) override;

 private:
  enum class State { starting, running, failed, closing };

  void run();
  // One broker's life. False when it could not even start.
  bool run_broker();
  void serve(int socket);
  void dispatch(const Message& message);
  void set_state(State state, const std::string& failure = {});
  Status send(MessageKind kind, std::string_view body, std::span<const int> descriptors = {});

  const std::string program_;
  const BrokerEvents events_;
  Mutex mutex_;
  CondVar changed_;
  State state_ GUARDED_BY(mutex_) = State::starting;
  std::string failure_ GUARDED_BY(mutex_);
  FileDescriptor socket_ GUARDED_BY(mutex_);
  std::thread thread_;
};

Status Client::open() {
  thread_ = std::thread([this] { run(); });
  const MutexLock lock(mutex_);
  while (state_ == State::starting) changed_.wait(mutex_);
  if (state_ == State::failed) return fail(ErrorCode::unavailable, failure_);
  return {};
}

Client::~Client() {
  {
    const MutexLock lock(mutex_);
    state_ = State::closing;
    // The broker sees this and ends; our own thread sees the broker's end then.
    if (socket_) shutdown(socket_.get(), SHUT_WR);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Client::set_state(State state, const std::string& failure) {
  const MutexLock lock(mutex_);
  if (state_ != State::closing) state_ = state;
  failure_ = failure;
  changed_.notify_all();
}

void Client::run() {
  milliseconds delay = kRestartDelay;
  while (true) {
    // The broker is killed when the thread that started it ends, so this thread stays until it has.
    delay = run_broker() ? kRestartDelay : std::min(delay * 2, kRestartDelayMax);
    const MutexLock lock(mutex_);
    if (state_ == State::closing) return;
    changed_.wait_for(mutex_, delay);
    if (state_ == State::closing) return;
  }
}

bool Client::run_broker() {
  auto ends = make_socket_pair();
  if (!ends) {
    set_state(State::failed, ends.error().message());
    return false;
  }
  auto pid = spawn_program(program_, ends->second.get());
  if (!pid) {
    set_state(State::failed, pid.error().message());
    return false;
  }
  ends->second.reset();
  const int socket = ends->first.get();
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof(kSendTimeout));
  {
    const MutexLock lock(mutex_);
    socket_ = std::move(ends->first);
    if (state_ == State::closing) shutdown(socket, SHUT_WR);
  }
  serve(socket);
  bool was_running = false;
  {
    const MutexLock lock(mutex_);
    was_running = state_ == State::running || state_ == State::closing;
    socket_.reset();
  }
  int status = 0;
  waitpid(*pid, &status, 0);
  set_state(State::failed, fmt::format("the broker ended (status {:#x})", status));
  if (was_running) events_.lost();
  return was_running;
}

void Client::serve(int socket) {
  while (true) {
    auto message = receive_message(socket);
    if (!message || !*message) return;
    dispatch(**message);
  }
}

void Client::dispatch(const Message& message) {
  FieldReader fields(message.body);
  switch (message.kind) {
    case MessageKind::hello:
      if (const auto abilities = decode_sandbox_abilities(message.body)) events_.hello(*abilities);
      set_state(State::running);
      return;
    case MessageKind::profile_ready:
    case MessageKind::profile_failed: {
      const std::string name = fields.text();
      const std::string text = fields.text();
      const bool ready = message.kind == MessageKind::profile_ready;
      (ready ? events_.profile_ready : events_.profile_failed)(name, text);
      return;
    }
    case MessageKind::exited:
      if (const auto exit = decode_worker_exit(message.body)) events_.exited(*exit);
      return;
    default:
      LOG_WARN("broker sent an unknown message", {{"kind", static_cast<int>(message.kind)}});
  }
}

Status Client::send(MessageKind kind, std::string_view body, std::span<const int> descriptors) {
  const MutexLock lock(mutex_);
  if (!socket_ || state_ != State::running) {
    return fail(ErrorCode::unavailable, failure_.empty() ? "the broker is starting" : failure_);
  }
  return send_message(socket_.get(), kind, body, descriptors);
}

Status Client::start_profile(const StartProfile& profile) {
  return send(MessageKind::start_profile, encode(profile));
}

Status Client::spawn(const WorkerOrder& order, const WorkerDescriptors& descriptors) {
  std::vector<int> numbers = {descriptors.socket.get(), descriptors.out.get(),
                              descriptors.err.get(), descriptors.arena.get()};
  for (const FileDescriptor& mount : descriptors.mounts) numbers.push_back(mount.get());
  return send(MessageKind::spawn, encode(order), numbers);
}

Status Client::kill(std::uint64_t worker) {
  FieldWriter fields;
  fields.number(worker);
  return send(MessageKind::kill, fields.bytes());
}

}  // namespace

Result<std::unique_ptr<BrokerClient>> BrokerClient::start(std::string program,
                                                          BrokerEvents events) {
  auto client = std::make_unique<Client>(std::move(program), std::move(events));
  RETURN_IF_ERROR(client->open());
  return client;
}

}  // namespace onggi::active
