#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client/connection.h"

namespace onggi::client {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";  // encoded path and query
  HeaderList headers = {};
  std::optional<std::span<const std::byte>> body = {};  // borrowed for the call
};

struct HttpResponse {
  int status = 0;
  HeaderList headers;  // names in lower case
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
  std::optional<std::string_view> header(std::string_view lower_case_name) const;
};

// Asked at least once a second while a call blocks, from the thread that blocks; true ends the call
// with `cancelled`.
using CancelCheck = std::function<bool()>;

struct CallHooks {
  // Receives the body of a 2xx answer piece by piece; other answers are collected in the response.
  std::function<Status(std::span<const std::byte>)> sink = {};
  // Total of body bytes sent so far.
  std::function<void(std::uint64_t)> sent = {};
  CancelCheck cancelled = {};
};

// An answer that is read while it comes. read() belongs to one thread; close() to any.
class HttpStream {
 public:
  virtual ~HttpStream() = default;

  // Status and headers, known once open.
  virtual const HttpResponse& head() const = 0;
  // Blocks for at least one byte; 0 at the end of the body. unavailable when the connection broke
  // before that, cancelled after close().
  virtual Result<std::size_t> read(std::span<std::byte> out, const CancelCheck& cancelled = {}) = 0;
  // Closes the connection as soon as may be: a blocked read() returns.
  virtual void close() = 0;
};

struct Attempt {
  Result<HttpResponse> response;
  bool reached = false;  // the daemon may have seen the request, so only idempotent ones go again
};

// HTTP/1.1 to one daemon, one attempt a call, keeping connections. Thread-safe; in a forked child
// it starts afresh and leaves the parent's connections alone. Errors: unavailable (with the remedy)
// when the daemon cannot be reached or the connection breaks, cancelled, or the sink's own.
class HttpClient {
 public:
  explicit HttpClient(Connection connection);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Attempt perform(const HttpRequest& request, const CallHooks& hooks = {});
  // Returns once the head of the answer is there. A stream may outlive this client.
  Result<std::unique_ptr<HttpStream>> open_stream(const HttpRequest& request,
                                                  const CancelCheck& cancelled = {});

  const Connection& connection() const { return connection_; }

 private:
  class Pool;

  const Connection connection_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace onggi::client
