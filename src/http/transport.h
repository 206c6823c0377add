#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "http/server.h"

struct ssl_ctx_st;
struct ssl_st;

namespace onggi::http {

enum class IoState {
  ready,       // some bytes moved
  want_read,   // try again once the socket is readable
  want_write,  // try again once it is writable
  ended,       // the peer has closed its side, or the connection failed
};

struct IoStep {
  IoState state = IoState::ended;
  std::size_t bytes = 0;
};

// What all TLS connections of a server share: certificate, key and settings.
class TlsContext {
 public:
  static Result<TlsContext> load(const TlsOptions& options);
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

// Moves bytes through one non-blocking socket, as TLS when a context is given. No call blocks but
// to read a file. One thread at a time, except cut().
class Transport {
 public:
  Transport(FileDescriptor socket, const TlsContext* tls);

  int descriptor() const { return socket_.get(); }
  bool is_tls() const { return ssl_ != nullptr; }
  // True when bytes wait in TLS's own buffer, where no poll sees them.
  bool has_pending() const;

  IoStep handshake();
  IoStep read(std::span<std::byte> out);
  // Reads what has come and forgets it.
  IoStep drop_input();
  // True when bytes, or the end, wait in the socket.
  bool is_readable() const;
  // Writes some of `pieces` (4 at most); `more` says that bytes follow at once.
  IoStep write(std::span<const std::span<const std::byte>> pieces, bool more = false);
  // Sends some of the file: sendfile(2) on a plain socket, through TLS otherwise.
  IoStep send_file(int file, std::uint64_t offset, std::uint64_t length);

  // Tells the peer that nothing follows; reading goes on.
  void finish_writing();
  // Ends both directions at once: whoever waits for the socket wakes. Thread-safe.
  void cut();
  // Makes closing the socket reset the connection, so that the peer cannot take what it got for
  // complete.
  void reset_on_close();

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  IoStep tls_step(int result);
  IoStep tls_write(std::span<const std::byte> bytes);

  FileDescriptor socket_;
  std::unique_ptr<ssl_st, Free> ssl_;
};

}  // namespace onggi::http
