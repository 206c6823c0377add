#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/gate.h"
#include "base/thread_pool.h"
#include "http/event_loop.h"
#include "http/outgoing.h"
#include "http/request_metrics.h"
#include "http/router.h"
#include "http/server.h"
#include "http/transport.h"

namespace onggi::http {

class Connection;

// What the connections of one server share. Members are const, thread-safe, or say whose they are.
struct ServerCore {
  ServerCore(ServerOptions server_options, const Router& server_router,
             metrics::Registry& registry);
  ~ServerCore();
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;
  ServerCore(ServerCore&&) = delete;
  ServerCore& operator=(ServerCore&&) = delete;

  // Runs a new request's work; resource_exhausted when too many wait already.
  Status admit(std::function<void()> work);
  // Goes on with a request that was admitted. Runs `work` here once the pool is closed.
  void resume(const std::function<void()>& work);

  std::string next_request_id();

  const ServerOptions options;
  const Router& router;
  std::unique_ptr<EventLoop> loop;
  std::optional<TlsContext> tls;  // set before the loop starts
  RequestMetrics metrics;
  DateText date;
  Gate requests;  // closed by stop(); those who come later are refused, and counted by `refusals`
  Gate refusals;
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> streams_running{0};
  // Owned here, by the loop's thread, until a connection has ended.
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections;
  ThreadPool handlers;
  ThreadPool streams;

 private:
  const std::string id_prefix_;
  std::atomic<std::uint64_t> next_id_{0};
};

}  // namespace onggi::http
