#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/thread_pool.h"
#include "http/message.h"
#include "http/router.h"
#include "metrics/metrics.h"

namespace onggi::http {

struct TlsOptions {
  std::string certificate_file;  // PEM chain; empty: no TLS
  std::string key_file;
};

// Makes what the server itself answers to a request it refuses: 404, 405 (Allow is added), 413,
// 431, 400 and the like; not that it is busy or stopping. `detail` is a sentence.
using RefusalRenderer =
    std::function<Response(const Request& request, int status, std::string_view detail)>;

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;   // 0: any free one, see Server::port()
  std::string unix_socket;  // path; empty: none. A stale socket file is replaced.
  TlsOptions tls;
  std::size_t connections_max = 20'000;
  std::size_t header_bytes_max = 64 << 10;
  std::size_t body_bytes_max = 16 << 20;    // of bodies that are collected for a handler
  std::chrono::seconds header_timeout{30};  // from the first byte of a request to its last header
  std::chrono::seconds idle_timeout{300};   // between requests
  std::chrono::seconds stall_timeout{60};   // no byte moved in a body, either way
  std::size_t handler_threads = 16;
  std::size_t stream_threads = 64;  // responses that are streams hold one each
  RefusalRenderer render_refusal;   // none: problem details
};

// An HTTP/1.1 server (RFC 9110, 9112). Connections are asynchronous on one loop thread; handlers,
// sinks and streams are plain blocking code on bounded pools. A full pool answers 503 with
// Retry-After. Malformed requests get 400 with problem details (RFC 9457).
class Server {
 public:
  // `router` and `metrics` are borrowed and outlive the server. Makes the process ignore SIGPIPE if
  // it has no handler for it.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, const Router& router,
                                               metrics::Registry& metrics);
  virtual ~Server() = default;

  virtual std::uint16_t port() const = 0;

  // Stops accepting, closes idle connections, answers newcomers on kept-alive connections with 503
  // and Connection: close, and waits for requests in flight. True when all finished in time; the
  // rest is cut. Returns only once the handlers have.
  virtual bool stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace onggi::http
