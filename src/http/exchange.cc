#include "http/exchange.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <type_traits>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>

#include "base/encoding.h"
#include "base/log.h"

namespace onggi::http {
namespace {

using std::chrono::steady_clock;

// A pool thread waits this long for a socket before it gives the connection back to the loop: a
// transfer at full speed then keeps its thread, a slow one costs none.
constexpr int kPatienceMs = 5;
// A pool thread works this long on one transfer while other work waits.
constexpr std::chrono::milliseconds kTurn{50};
constexpr std::size_t kCollectStepBytes = 64 << 10;
constexpr std::size_t kCollectTurnBytes = 1 << 20;
constexpr std::size_t kRequestIdBytesMax = 128;

bool is_sane_id(std::string_view id) {
  return !id.empty() && id.size() <= kRequestIdBytesMax && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

std::uint32_t events_for(IoState state) {
  return state == IoState::want_read ? EPOLLIN : EPOLLOUT;
}

Response busy(std::string_view detail, std::string_view request_id) {
  Response response = problem(503, "unavailable", detail, request_id);
  response.headers.set("Retry-After", "1");
  return response;
}

// Handlers return errors; what they throw is our bug, and must not take the daemon down.
template <typename Call>
auto call_out(const Request& request, Call call) -> decltype(call()) {
  std::string what;
  try {
    return call();
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
    what = "not a std::exception";
  }
  LOG_ERROR("handler threw", {{"request_id", request.request_id}, {"error", what}});
  if constexpr (std::is_same_v<decltype(call()), Response>) {
    return problem(500, "internal", "the request failed", request.request_id);
  } else if constexpr (std::is_same_v<decltype(call()), Intake>) {
    Intake intake;
    intake.response = problem(500, "internal", "the request failed", request.request_id);
    return intake;
  } else {
    return {};
  }
}

}  // namespace

void Connection::begin_exchange(Head head) {
  Request& request = head.request;
  request.peer = peer_;
  const auto given = request.headers.get("X-Request-Id");
  request.request_id = given && is_sane_id(*given) ? std::string(*given) : core_.next_request_id();
  exchange_ = std::make_unique<Exchange>(std::move(head));
  Exchange& x = *exchange_;
  if (gate_ == &core_.refusals) {
    core_.metrics.rejected("stopping");
    x.head.keep_alive = false;
    respond(busy("the server is stopping", x.head.request.request_id), Where::loop);
    return;
  }
  const auto route = core_.router.match(x.head.request);
  if (!route) {
    const Error& error = route.error();
    const bool wrong_method = error.code() == ErrorCode::unsupported;
    const int status = wrong_method ? 405 : error.code() == ErrorCode::not_found ? 404 : 400;
    Response response =
        render_refusal(status, to_string(error.code()),
                       wrong_method ? "the path has other methods" : error.message());
    if (wrong_method) response.headers.set("Allow", error.message());
    respond(std::move(response), Where::loop);
    return;
  }
  x.route = *route;
  if (x.route->intake) {
    submit(&Connection::run_intake);
  } else if (x.body.done()) {
    submit(&Connection::run_handler);
  } else {
    begin_collecting();
  }
}

Response Connection::render_refusal(int status, std::string_view code,
                                    std::string_view detail) const {
  const Request& request = exchange_->head.request;
  const RefusalRenderer& render = core_.options.render_refusal;
  return render ? render(request, status, detail)
                : problem(status, code, detail, request.request_id);
}

void Connection::refuse(const Refusal& refusal) {
  core_.metrics.rejected(refusal.reason);
  Head head;
  head.keep_alive = false;
  head.request.peer = peer_;
  head.request.request_id = core_.next_request_id();
  exchange_ = std::make_unique<Exchange>(std::move(head));
  exchange_->unread = true;
  exchange_->refused = true;
  respond(render_refusal(refusal.status, refusal.code, refusal.detail), Where::loop);
}

void Connection::submit(Step work) {
  phase_ = Phase::working;
  if (core_.admit([this, work] { (this->*work)(); })) return;
  core_.metrics.rejected("busy");
  respond(busy("too many requests wait; try again", exchange_->head.request.request_id),
          Where::loop);
}

void Connection::say_continue() {
  if (!exchange_->head.expects_continue || !buffer_.empty()) return;
  // So short that it fits a socket which owes the peer nothing else; if not, the peer goes on after
  // a while by itself (RFC 9110 §10.1.1).
  transport_.write(std::array{as_bytes("HTTP/1.1 100 Continue\r\n\r\n")});
}

void Connection::begin_collecting() {
  if (exchange_->head.request.content_length.value_or(0) > core_.options.body_bytes_max) {
    core_.metrics.rejected("body_too_large");
    respond(render_refusal(413, "too_large", "the request's body is too large"), Where::loop);
    return;
  }
  say_continue();
  collect();
}

void Connection::collect() {
  Exchange& x = *exchange_;
  std::string& body = x.head.request.body;
  for (std::size_t turn = 0; !x.body.done() && turn < kCollectTurnBytes;) {
    const std::size_t held = body.size();
    const std::size_t room =
        std::min<std::size_t>(std::max(kCollectStepBytes, held),
                              x.head.request.content_length.value_or(kCollectStepBytes + held));
    body.resize(held + room);
    const IoStep step =
        x.body.read(transport_, buffer_, std::as_writable_bytes(std::span(body)).subspan(held));
    body.resize(held + step.bytes);
    turn += step.bytes;
    core_.metrics.bytes_received.add(step.bytes);
    if (x.body.malformed()) {
      core_.metrics.rejected("malformed");
      respond(render_refusal(400, "invalid_argument", "the chunked body is malformed"),
              Where::loop);
      return;
    }
    if (body.size() > core_.options.body_bytes_max) {
      core_.metrics.rejected("body_too_large");
      respond(render_refusal(413, "too_large", "the request's body is too large"), Where::loop);
      return;
    }
    if (step.state == IoState::ended) return end();
    if (step.state != IoState::ready) {
      wait(Phase::collect, events_for(step.state),
           steady_clock::now() + core_.options.stall_timeout);
      return;
    }
  }
  if (x.body.done()) return submit(&Connection::run_handler);
  // The others' turn. Not a wait for the socket: more may be here already, where no poll sees it.
  phase_ = Phase::working;
  core_.loop->post([this] { collect(); });
}

void Connection::run_handler() {
  Request& request = exchange_->head.request;
  respond(call_out(request, [&] { return exchange_->route->handler(request); }), Where::pool);
}

void Connection::run_intake() {
  Exchange& x = *exchange_;
  Intake intake = call_out(x.head.request, [&] { return x.route->intake(x.head.request); });
  if (intake.response) return respond(*std::move(intake.response), Where::pool);
  x.sink = std::move(intake.sink);
  say_continue();
  pump();
}

void Connection::pump() {
  const SteadyTime since = steady_clock::now();
  const Exchange& x = *exchange_;
  Pumped last = Pumped::some;
  while (last == Pumped::some) {
    if (yield_pool(since, &Connection::pump)) return;
    last = call_out(x.head.request, [this] { return pump_once(); });
  }
  if (last == Pumped::blocked) return pause(&Connection::pump, events_for(x.wanted));
  if (last == Pumped::gone) return end();
  respond(sink_response(last), Where::pool);
}

Response Connection::sink_response(Pumped last) {
  Exchange& x = *exchange_;
  const std::string& id = x.head.request.request_id;
  Response response;
  if (last == Pumped::complete) {
    response = call_out(x.head.request, [&x] { return x.sink->finish(); });
  } else if (last == Pumped::malformed) {
    core_.metrics.rejected("malformed");
    response = render_refusal(400, "invalid_argument", "the chunked body is malformed");
  } else {
    response = problem(500, "internal", "the request failed", id);
  }
  x.sink.reset();
  return response;
}

// Fills the sink's buffer once, as far as bytes come, and commits.
Connection::Pumped Connection::pump_once() {
  Exchange& x = *exchange_;
  if (x.body.done()) return Pumped::complete;
  const std::span<std::byte> space = x.sink->buffer();
  std::size_t filled = 0;
  IoState state = IoState::ready;
  while (state == IoState::ready && filled < space.size() && !x.body.done()) {
    const IoStep step = x.body.read(transport_, buffer_, space.subspan(filled));
    filled += step.bytes;
    state = step.state;
    if ((state == IoState::want_read || state == IoState::want_write) && ready_soon(state)) {
      state = IoState::ready;
    }
  }
  core_.metrics.bytes_received.add(filled);
  if (filled > 0 && !x.sink->commit(filled)) return Pumped::complete;
  if (state == IoState::ended) {
    x.sink->abandon();
    x.sink.reset();
    return x.body.malformed() ? Pumped::malformed : Pumped::gone;
  }
  if (x.body.done()) return Pumped::complete;
  x.wanted = state;
  return state == IoState::ready ? Pumped::some : Pumped::blocked;
}

bool Connection::ready_soon(IoState wanted) const {
  pollfd socket{.fd = transport_.descriptor(),
                .events = static_cast<short>(wanted == IoState::want_read ? POLLIN : POLLOUT),
                .revents = 0};
  return ::poll(&socket, 1, kPatienceMs) > 0;
}

// True when the turn is over: the work then goes on from the queue's end.
bool Connection::yield_pool(SteadyTime since, Step next) {
  if (core_.handlers.queued() == 0 || steady_clock::now() - since < kTurn) return false;
  core_.resume([this, next] { (this->*next)(); });
  return true;
}

void Connection::respond(Response response, Where where) {
  Exchange& x = *exchange_;
  const Request& request = x.head.request;
  if (!x.body.skip(buffer_)) x.unread = true;
  const auto asked = response.headers.get("Connection");
  if (x.unread || core_.stopping || (asked && equal_names(*asked, "close"))) {
    x.head.keep_alive = false;
  }
  x.status = response.status;
  HeadFields fields{.request_id = request.request_id,
                    .date = core_.date.now(),
                    .length = response.text.size(),
                    .http_1_0 = x.head.http_1_0};
  const bool bodyless = response.status == 204 || response.status == 304;
  if (bodyless) {
    fields.framing = Framing::none;
  } else if (response.stream) {
    fields.framing = x.head.http_1_0 ? Framing::until_close : Framing::chunked;
    if (x.head.http_1_0) x.head.keep_alive = false;
  } else if (response.file) {
    fields.length = response.file->length;
  } else if (const auto length = response.headers.get("Content-Length");
             length && request.method == Method::head) {
    std::from_chars(length->data(), length->data() + length->size(), fields.length);
  }
  fields.keep_alive = x.head.keep_alive;
  std::string head = head_text(response, fields);
  if (bodyless || request.method == Method::head) {
    if (response.stream) response.stream->cancel();
    response.stream.reset();
    response.file.reset();
    response.text.clear();
  }
  if (response.stream) {
    x.stream = std::move(response.stream);
    x.stream_framing = fields.framing;
    return begin_stream(std::move(head), where);
  }
  x.out = std::make_unique<Outgoing>(std::move(head), std::move(response.text),
                                     std::move(response.file));
  flush(where);
}

void Connection::flush(Where where) {
  Outgoing& out = *exchange_->out;
  const bool on_pool = where == Where::pool && out.has_file();
  const SteadyTime since = steady_clock::now();
  while (!out.done()) {
    const IoStep step = out.send(transport_);
    core_.metrics.bytes_sent.add(step.bytes);
    if (step.state == IoState::ended) return end();
    if (step.state == IoState::ready) {
      if (on_pool && yield_pool(since, &Connection::flush_on_pool)) return;
      continue;
    }
    if (on_pool && ready_soon(step.state)) continue;
    if (on_pool) return pause(&Connection::flush_on_pool, events_for(step.state));
    wait(Phase::flushing, events_for(step.state),
         steady_clock::now() + core_.options.stall_timeout);
    return;
  }
  finish_exchange();
}

void Connection::finish_exchange() {
  const Exchange& x = *exchange_;
  const std::chrono::duration<double> took = steady_clock::now() - begun_;
  if (!x.refused) {
    core_.metrics.answered(x.route, x.head.request.method, x.status, took.count());
  }
  const bool keep_alive = x.head.keep_alive;
  const bool unread = x.unread;
  exchange_.reset();
  if (keep_alive) {
    next_request();
  } else {
    linger(unread);
  }
}

}  // namespace onggi::http
