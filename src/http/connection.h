#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/gate.h"
#include "http/body_reader.h"
#include "http/event_loop.h"
#include "http/head_parser.h"
#include "http/input_buffer.h"
#include "http/outgoing.h"
#include "http/router.h"
#include "http/server_core.h"
#include "http/transport.h"

namespace onggi::http {

// One client's connection. At any moment exactly one thread owns it: the loop's, while it waits or
// reads a head, or a pool thread, while a handler, a sink or a stream runs. Ownership passes by
// submitting a job (to the pool) and by wait() or a posted task (to the loop); the owner alone
// touches the fields. What other threads may do is to look at `phase_`, and to cut the socket,
// which makes the owner find out.
class Connection final : public Watcher {
 public:
  Connection(ServerCore& core, FileDescriptor socket, Peer peer);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&&) = delete;
  Connection& operator=(Connection&&) = delete;

  // All on the loop's thread.
  Status start();
  void on_ready(std::uint32_t events) override;
  void on_tick(SteadyTime now);
  // Closes the connection if it waits for a request and none has come.
  void close_if_idle();
  // Ends it now, whatever it does.
  void cut();

 private:
  enum class Phase : std::uint8_t {
    handshake,  // waits, for TLS
    idle,       // waits for a request's first byte
    head,       // waits for the rest of its head
    collect,    // waits for the body of a plain handler
    paused,     // waits; a pool thread goes on when ready
    flushing,   // waits to send the rest of a response
    lingering,  // has sent its last response; waits for the peer to close
    working,    // a pool thread owns the connection
    streaming,  // a stream thread owns it; a hang-up cancels the stream
  };
  // What became of one filling of a sink; `threw` is what a failed call leaves.
  enum class Pumped : std::uint8_t { threw, some, blocked, complete, gone, malformed };
  enum class Where : std::uint8_t { loop, pool };
  using Step = void (Connection::*)();
  struct Exchange;

  // connection.cc: waiting, heads, and the end
  void wait(Phase phase, std::uint32_t events, SteadyTime deadline);
  void pause(Step next, std::uint32_t events);
  void shake_hands();
  void receive_head();
  void begin_request();
  void consider_head();
  void next_request();
  void linger(bool unread);
  void drop_input();
  void refuse_late();
  void leave_gate();
  void end();

  // exchange.cc: one request and its response
  void begin_exchange(Head head);
  void refuse(const Refusal& refusal);
  void submit(Step work);
  void begin_collecting();
  void collect();
  void run_handler();
  void run_intake();
  void pump();
  Pumped pump_once();
  Response sink_response(Pumped last);
  Response render_refusal(int status, std::string_view code, std::string_view detail) const;
  void say_continue();
  void respond(Response response, Where where);
  void flush_on_loop() { flush(Where::loop); }
  void flush_on_pool() { flush(Where::pool); }
  void flush(Where where);
  void finish_exchange();
  bool ready_soon(IoState wanted) const;
  bool yield_pool(SteadyTime since, Step next);

  // stream_transfer.cc
  void begin_stream(std::string head, Where where);
  void run_stream();
  bool send_stream();
  bool send_pieces(std::span<std::span<const std::byte>> pieces);
  void cancel_stream();
  void settle_stream(bool whole);

  ServerCore& core_;
  Transport transport_;
  const Peer peer_;
  InputBuffer buffer_;
  std::size_t searched_ = 0;  // bytes of buffer_ known to hold no end of a head
  Gate* gate_ = nullptr;      // the one this request is counted by
  SteadyTime begun_;          // when the request's first byte came
  SteadyTime linger_until_;
  std::unique_ptr<Exchange> exchange_;
  Step next_ = nullptr;  // what a paused connection goes on with
  std::atomic<Phase> phase_{Phase::working};
  std::atomic<SteadyTime::rep> deadline_;

  // The stream's hang-up handshake: the loop's thread cancels at most once, and the stream's thread
  // waits out a cancel under way before it lets the stream go.
  enum class Cancel : std::uint8_t { none, possible, running, done };
  std::atomic<Cancel> cancel_{Cancel::none};
  Stream* stream_ = nullptr;  // valid while cancel_ is possible or running
};

}  // namespace onggi::http
