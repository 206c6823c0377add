#include "http/connection.h"

#include <array>
#include <utility>

#include <sys/epoll.h>

#include "base/encoding.h"
#include "http/exchange.h"

namespace onggi::http {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kHeadReadBytes = 8 << 10;
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::chrono::seconds kHandshakeTime{10};
constexpr SteadyTime::rep kNever = SteadyTime::max().time_since_epoch().count();

}  // namespace

Connection::Connection(ServerCore& core, FileDescriptor socket, Peer peer)
    : core_(core),
      transport_(std::move(socket), core.tls ? &*core.tls : nullptr),
      peer_(std::move(peer)),
      deadline_(kNever) {
  core_.metrics.connections.add(1);
}

Connection::~Connection() {
  core_.metrics.connections.add(-1);
}

Status Connection::start() {
  const bool tls = transport_.is_tls();
  const SteadyTime now = steady_clock::now();
  deadline_ =
      (tls ? now + kHandshakeTime : now + core_.options.idle_timeout).time_since_epoch().count();
  phase_ = tls ? Phase::handshake : Phase::idle;
  return core_.loop->add(transport_.descriptor(), *this, EPOLLIN);
}

void Connection::on_ready(std::uint32_t /*events*/) {
  switch (phase_.load(std::memory_order_acquire)) {
    case Phase::handshake:
      next_ = &Connection::shake_hands;
      [[fallthrough]];
    case Phase::paused:
      phase_ = Phase::working;
      core_.resume([this] { (this->*next_)(); });
      break;
    case Phase::idle:
    case Phase::head:
      receive_head();
      break;
    case Phase::collect:
      collect();
      break;
    case Phase::flushing:
      flush_on_loop();
      break;
    case Phase::lingering:
      drop_input();
      break;
    case Phase::streaming:
      cancel_stream();
      break;
    case Phase::working:
      break;  // a hang-up seen just as its stream ended; whoever owns the connection will notice
  }
}

void Connection::on_tick(SteadyTime now) {
  if (now.time_since_epoch().count() < deadline_.load(std::memory_order_relaxed)) return;
  switch (phase_.load(std::memory_order_acquire)) {
    case Phase::head:
    case Phase::collect:
      refuse_late();
      break;
    case Phase::handshake:
    case Phase::idle:
    case Phase::paused:
    case Phase::flushing:
    case Phase::lingering:
      transport_.cut();
      break;
    case Phase::working:
    case Phase::streaming:
      return;  // not waiting: the deadline is a former one
  }
  deadline_ = kNever;
}

void Connection::close_if_idle() {
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::handshake) return transport_.cut();
  if (phase != Phase::idle) return;
  if (!transport_.is_readable()) transport_.cut();
}

void Connection::cut() {
  transport_.cut();
  if (phase_.load(std::memory_order_acquire) == Phase::streaming) cancel_stream();
}

void Connection::wait(Phase phase, std::uint32_t events, SteadyTime deadline) {
  const int fd = transport_.descriptor();
  EventLoop& loop = *core_.loop;
  deadline_.store(deadline.time_since_epoch().count(), std::memory_order_relaxed);
  phase_.store(phase, std::memory_order_release);
  loop.arm(fd, *this, events);  // from here on the loop owns the connection
}

void Connection::pause(Step next, std::uint32_t events) {
  next_ = next;
  wait(Phase::paused, events, steady_clock::now() + core_.options.stall_timeout);
}

void Connection::shake_hands() {
  const IoStep step = transport_.handshake();
  if (step.state == IoState::ended) return end();
  if (step.state == IoState::ready) {
    wait(Phase::idle, EPOLLIN, steady_clock::now() + core_.options.idle_timeout);
    return;
  }
  const std::uint32_t events = step.state == IoState::want_read ? EPOLLIN : EPOLLOUT;
  wait(Phase::handshake, events, SteadyTime(SteadyTime::duration(deadline_.load())));
}

void Connection::receive_head() {
  const IoStep step = transport_.read(buffer_.space(kHeadReadBytes));
  if (step.state == IoState::ended) return end();
  if (step.state != IoState::ready) {
    const Phase phase = phase_;
    if (phase == Phase::idle) buffer_.release();
    wait(phase, step.state == IoState::want_read ? EPOLLIN : EPOLLOUT,
         SteadyTime(SteadyTime::duration(deadline_.load())));
    return;
  }
  core_.metrics.bytes_received.add(step.bytes);
  buffer_.add(step.bytes);
  if (phase_ == Phase::idle) begin_request();
  consider_head();
}

void Connection::begin_request() {
  begun_ = steady_clock::now();
  searched_ = 0;
  gate_ = core_.requests.enter() ? &core_.requests : &core_.refusals;
  if (gate_ == &core_.refusals) gate_->enter();
}

void Connection::consider_head() {
  // Some clients end a body with a line break that no length counts (RFC 9112 §2.2).
  while (searched_ == 0 && buffer_.view().starts_with("\r\n")) buffer_.consume(2);
  const std::string_view bytes = buffer_.view();
  const std::size_t size = find_head(bytes, searched_);
  if (size > core_.options.header_bytes_max ||
      (size == 0 && bytes.size() >= core_.options.header_bytes_max)) {
    return refuse({.status = 431,
                   .code = "too_large",
                   .reason = "header_too_large",
                   .detail = "the request's head is too large"});
  }
  if (size > 0) {
    auto parsed = parse_head(bytes.substr(0, size));
    if (const auto* refusal = std::get_if<Refusal>(&parsed)) return refuse(*refusal);
    buffer_.consume(size);
    return begin_exchange(std::get<Head>(std::move(parsed)));
  }
  if (!bytes.empty() && is_hopeless(bytes)) {
    return refuse({.detail = "this is not HTTP"});
  }
  searched_ = bytes.size();
  wait(Phase::head, EPOLLIN, begun_ + core_.options.header_timeout);
}

void Connection::next_request() {
  leave_gate();
  if (buffer_.empty() && !transport_.has_pending()) {
    buffer_.release();
    wait(Phase::idle, EPOLLIN, steady_clock::now() + core_.options.idle_timeout);
    return;
  }
  // By way of the loop's queue, or many pipelined requests would nest.
  phase_ = Phase::working;
  core_.loop->post([this] {
    phase_ = Phase::idle;
    if (buffer_.empty()) return receive_head();
    begin_request();
    consider_head();
  });
}

void Connection::linger(bool unread) {
  // Closing with bytes unread would reset the connection, and the reset could overtake the
  // response.
  transport_.finish_writing();
  if (!unread) leave_gate();
  linger_until_ = steady_clock::now() + kLingerTime;
  wait(Phase::lingering, EPOLLIN, linger_until_);
}

void Connection::drop_input() {
  const IoStep step = transport_.drop_input();
  if (step.state == IoState::ended) return end();
  wait(Phase::lingering, EPOLLIN, linger_until_);
}

void Connection::refuse_late() {
  core_.metrics.rejected("timeout");
  const std::string id = core_.next_request_id();
  const Response response =
      problem(408, "deadline_exceeded", "the request did not arrive in time", id);
  const std::string text = head_text(response, {.request_id = id,
                                                .date = core_.date.now(),
                                                .length = response.text.size(),
                                                .keep_alive = false}) +
                           response.text;
  // At best: the connection ends in any case. Its wait is still armed and sees the end.
  transport_.write(std::array{as_bytes(text)});
  transport_.cut();
}

void Connection::leave_gate() {
  if (gate_ != nullptr) std::exchange(gate_, nullptr)->leave();
}

void Connection::end() {
  phase_ = Phase::working;
  exchange_.reset();
  core_.loop->remove(transport_.descriptor());
  core_.loop->post([this] {
    // The map's node owns us: nothing after this line.
    leave_gate();
    core_.connections.erase(this);
  });
}

}  // namespace onggi::http
