#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include "base/encoding.h"
#include "base/log.h"
#include "http/exchange.h"

namespace onggi::http {

void Connection::begin_stream(std::string head, Where where) {
  Exchange& x = *exchange_;
  x.stream_head = std::move(head);
  // Counted here rather than by the pool's queue: a stream that waits for a thread would look like
  // one that makes nothing.
  const bool room = core_.streams_running.fetch_add(1) < core_.options.stream_threads;
  phase_ = Phase::working;
  if (room && core_.streams.submit([this] { run_stream(); })) return;
  --core_.streams_running;
  core_.metrics.rejected("busy");
  x.stream->cancel();
  x.stream.reset();
  Response response =
      problem(503, "unavailable", "too many streams run; try again", x.head.request.request_id);
  response.headers.set("Retry-After", "1");
  respond(std::move(response), where);
}

void Connection::run_stream() {
  Exchange& x = *exchange_;
  stream_ = x.stream.get();
  cancel_ = Cancel::possible;
  phase_.store(Phase::streaming, std::memory_order_release);
  core_.loop->arm(transport_.descriptor(), *this, EPOLLRDHUP);
  const bool whole = send_stream();
  settle_stream(whole);
  x.stream.reset();
  --core_.streams_running;
  if (!whole) {
    if (x.stream_framing == Framing::until_close) transport_.reset_on_close();
    return end();
  }
  // On the loop, after whatever hang-up it may be looking at.
  core_.loop->post([this] { finish_exchange(); });
}

// Sends head and body; false when the stream failed or the peer is gone.
bool Connection::send_stream() {
  Exchange& x = *exchange_;
  const bool chunked = x.stream_framing == Framing::chunked;
  std::array<std::span<const std::byte>, 1> head{as_bytes(x.stream_head)};
  if (!send_pieces(head)) return false;
  while (true) {
    const auto bytes = x.stream->next();
    if (!bytes) {
      LOG_WARN("stream failed", {{"request_id", x.head.request.request_id},
                                 {"route", x.route->pattern},
                                 {"error", bytes.error().message()}});
      return false;
    }
    if (bytes->empty()) break;
    const std::string size = chunked ? fmt::format("{:x}\r\n", bytes->size()) : std::string();
    std::array<std::span<const std::byte>, 3> pieces{
        as_bytes(size), *bytes, as_bytes(std::string_view(chunked ? "\r\n" : ""))};
    if (!send_pieces(pieces)) return false;
  }
  std::array<std::span<const std::byte>, 1> last{
      as_bytes(std::string_view(chunked ? "0\r\n\r\n" : ""))};
  return send_pieces(last);
}

// Sends all of `pieces`, waiting for the peer as long as it takes some now and then.
bool Connection::send_pieces(std::span<std::span<const std::byte>> pieces) {
  while (true) {
    while (!pieces.empty() && pieces.front().empty()) pieces = pieces.subspan(1);
    if (pieces.empty()) return true;
    const IoStep step = transport_.write(pieces);
    core_.metrics.bytes_sent.add(step.bytes);
    std::size_t sent = step.bytes;
    for (auto& piece : pieces) {
      const std::size_t part = std::min(sent, piece.size());
      piece = piece.subspan(part);
      sent -= part;
    }
    if (step.state == IoState::ready) continue;
    if (step.state == IoState::ended) return false;
    pollfd socket{.fd = transport_.descriptor(),
                  .events = static_cast<short>(step.state == IoState::want_read ? POLLIN : POLLOUT),
                  .revents = 0};
    const auto timeout = std::chrono::milliseconds(core_.options.stall_timeout);
    if (::poll(&socket, 1, static_cast<int>(timeout.count())) <= 0) return false;
  }
}

void Connection::cancel_stream() {
  Cancel expected = Cancel::possible;
  if (!cancel_.compare_exchange_strong(expected, Cancel::running)) return;
  stream_->cancel();
  cancel_ = Cancel::done;
  cancel_.notify_all();
}

// Makes sure that nobody cancels any more, and that a stream which was not sent to its end has been
// cancelled.
void Connection::settle_stream(bool whole) {
  if (!whole) cancel_stream();
  Cancel expected = Cancel::possible;
  if (!cancel_.compare_exchange_strong(expected, Cancel::none)) {
    cancel_.wait(Cancel::running);
    cancel_ = Cancel::none;
  }
  phase_ = Phase::working;
}

}  // namespace onggi::http
