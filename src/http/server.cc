#include "http/server.h"

#include <array>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>

#include "base/encoding.h"
#include "base/log.h"
#include "base/random.h"
#include "http/connection.h"
#include "http/listener.h"
#include "http/server_core.h"

namespace onggi::http {
namespace {

constexpr std::chrono::milliseconds kTickInterval{250};
constexpr std::size_t kQueuedPerThread = 64;
// What a cut request gets to notice: its socket is dead, so only its own work can delay it.
constexpr std::chrono::seconds kCutTime{5};

std::string random_prefix() {
  std::array<std::byte, 6> bytes{};
  fill_random(bytes);
  return hex_encode(bytes);
}

class EpollServer final : public Server {
 public:
  EpollServer(const ServerOptions& options, const Router& router, metrics::Registry& registry)
      : core_(options, router, registry) {}

  ~EpollServer() override { stop(std::chrono::milliseconds(0)); }
  EpollServer(const EpollServer&) = delete;
  EpollServer& operator=(const EpollServer&) = delete;
  EpollServer(EpollServer&&) = delete;
  EpollServer& operator=(EpollServer&&) = delete;

  Status open();
  std::uint16_t port() const override { return port_; }
  bool stop(std::chrono::milliseconds grace) override;

 private:
  void accept(FileDescriptor socket, Peer peer);
  bool tick();
  bool wait_empty(SteadyTime deadline);

  ServerCore core_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // the loop's
  std::uint16_t port_ = 0;
  std::thread thread_;
};

Status EpollServer::open() {
  ASSIGN_OR_RETURN(core_.loop, EventLoop::make());
  const ServerOptions& options = core_.options;
  if (!options.tls.certificate_file.empty()) {
    ASSIGN_OR_RETURN(core_.tls, TlsContext::load(options.tls));
  }
  ASSIGN_OR_RETURN(auto tcp, Listener::tcp(options.address, options.port));
  port_ = tcp->port();
  listeners_.push_back(std::move(tcp));
  if (!options.unix_socket.empty()) {
    ASSIGN_OR_RETURN(auto local, Listener::unix_socket(options.unix_socket));
    listeners_.push_back(std::move(local));
  }
  for (const auto& listener : listeners_) {
    RETURN_IF_ERROR(listener->start(*core_.loop, [this](FileDescriptor socket, Peer peer) {
      accept(std::move(socket), std::move(peer));
    }));
  }
  thread_ = std::thread([this] { core_.loop->run(kTickInterval, [this] { return tick(); }); });
  ::pthread_setname_np(thread_.native_handle(), "http-loop");
  return {};
}

void EpollServer::accept(FileDescriptor socket, Peer peer) {
  if (core_.connections.size() >= core_.options.connections_max) {
    core_.metrics.rejected("too_many_connections");
    Transport(std::move(socket), nullptr)
        .write(std::array{as_bytes("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                                   "Content-Length: 0\r\nConnection: close\r\n\r\n")});
    return;
  }
  auto connection = std::make_unique<Connection>(core_, std::move(socket), std::move(peer));
  Connection& made = *connection;
  core_.connections.emplace(&made, std::move(connection));
  if (const Status started = made.start(); !started) {
    LOG_WARN("cannot watch a connection", {{"error", started.error().message()}});
    core_.connections.erase(&made);
  }
}

bool EpollServer::tick() {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const auto& entry : core_.connections) entry.second->on_tick(now);
  for (const auto& listener : listeners_) listener->on_tick();
  return !core_.connections.empty();
}

bool EpollServer::wait_empty(SteadyTime deadline) {
  const auto left = [deadline] {
    return std::chrono::ceil<std::chrono::milliseconds>(deadline -
                                                        std::chrono::steady_clock::now());
  };
  return core_.requests.wait_empty(left()) && core_.refusals.wait_empty(left());
}

bool EpollServer::stop(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return true;
  const SteadyTime now = std::chrono::steady_clock::now();
  core_.stopping = true;
  core_.requests.close();
  core_.loop->post([this] {
    for (const auto& listener : listeners_) listener->close();
    for (const auto& entry : core_.connections) entry.second->close_if_idle();
  });
  const bool finished = wait_empty(now + grace);
  core_.loop->post([this] {
    for (const auto& entry : core_.connections) entry.second->cut();
  });
  if (!finished && !wait_empty(std::chrono::steady_clock::now() + kCutTime)) {
    LOG_WARN("requests do not end though their connections are cut");
  }
  core_.handlers.close();
  core_.streams.close();
  core_.loop->stop();
  thread_.join();
  core_.connections.clear();
  return finished;
}

}  // namespace

ServerCore::ServerCore(ServerOptions server_options, const Router& server_router,
                       metrics::Registry& registry)
    : options(std::move(server_options)),
      router(server_router),
      metrics(registry),
      handlers({.name = "http",
                .threads = options.handler_threads,
                .queue_max = options.handler_threads * kQueuedPerThread + options.connections_max}),
      streams({.name = "http-stream",
               .threads = options.stream_threads,
               .queue_max = options.stream_threads}),
      id_prefix_(random_prefix()) {}

ServerCore::~ServerCore() = default;

Status ServerCore::admit(std::function<void()> work) {
  if (handlers.queued() >= options.handler_threads * kQueuedPerThread) {
    return fail(ErrorCode::resource_exhausted, "the queue of requests is full");
  }
  return handlers.submit(std::move(work));
}

void ServerCore::resume(const std::function<void()>& work) {
  if (!handlers.submit(work)) work();
}

std::string ServerCore::next_request_id() {
  return fmt::format("{}{:08x}", id_prefix_, next_id_.fetch_add(1, std::memory_order_relaxed));
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, const Router& router,
                                              metrics::Registry& metrics) {
  // sendfile(2) and OpenSSL raise SIGPIPE when the peer has left, and neither takes MSG_NOSIGNAL.
  struct sigaction present{};
  if (::sigaction(SIGPIPE, nullptr, &present) == 0 && present.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
  auto server = std::make_unique<EpollServer>(options, router, metrics);
  RETURN_IF_ERROR(server->open());
  return server;
}

}  // namespace onggi::http
