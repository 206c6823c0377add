#include "http/transport.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"

namespace onggi::http {
namespace {

constexpr std::size_t kPiecesMax = 4;
constexpr std::size_t kTlsRecordBytes = 16 << 10;
// One call's share of a file: large enough to cost nothing per byte, small enough to notice a cut.
constexpr std::size_t kFileStepBytes = 8 << 20;

IoStep socket_step(ssize_t result, IoState blocked) {
  if (result > 0) return {.state = IoState::ready, .bytes = static_cast<std::size_t>(result)};
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {.state = blocked};
  return {.state = IoState::ended};
}

std::string tls_error() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

}  // namespace

void TlsContext::Free::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

void Transport::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

Result<TlsContext> TlsContext::load(const TlsOptions& options) {
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  CHECK(context.get() != nullptr);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_use_certificate_chain_file(context.get(), options.certificate_file.c_str()) != 1) {
    return fail(ErrorCode::invalid_argument,
                "TLS certificate " + options.certificate_file + ": " + tls_error());
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return fail(ErrorCode::invalid_argument, "TLS key " + options.key_file + ": " + tls_error());
  }
  return context;
}

Transport::Transport(FileDescriptor socket, const TlsContext* tls) : socket_(std::move(socket)) {
  if (tls == nullptr) return;
  ssl_.reset(SSL_new(tls->get()));
  CHECK(ssl_ != nullptr);
  CHECK(SSL_set_fd(ssl_.get(), socket_.get()) == 1);
  SSL_set_accept_state(ssl_.get());
}

bool Transport::has_pending() const {
  return ssl_ != nullptr && SSL_has_pending(ssl_.get()) == 1;
}

IoStep Transport::tls_step(int result) {
  if (result > 0) return {.state = IoState::ready, .bytes = static_cast<std::size_t>(result)};
  const int error = SSL_get_error(ssl_.get(), result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) return {.state = IoState::want_read};
  if (error == SSL_ERROR_WANT_WRITE) return {.state = IoState::want_write};
  return {.state = IoState::ended};
}

IoStep Transport::handshake() {
  IoStep step = tls_step(SSL_do_handshake(ssl_.get()));
  step.bytes = 0;
  return step;
}

IoStep Transport::read(std::span<std::byte> out) {
  if (ssl_) {
    return tls_step(SSL_read(ssl_.get(), out.data(),
                             static_cast<int>(std::min(out.size(), std::size_t{1} << 30))));
  }
  ssize_t result = -1;
  do {
    result = ::recv(socket_.get(), out.data(), out.size(), 0);
  } while (result < 0 && errno == EINTR);
  return socket_step(result, IoState::want_read);
}

IoStep Transport::drop_input() {
  // Not through TLS: what nobody reads need not be decrypted.
  std::array<std::byte, 16 << 10> dropped;  // NOLINT(*-member-init): only written
  return socket_step(::recv(socket_.get(), dropped.data(), dropped.size(), 0), IoState::want_read);
}

bool Transport::is_readable() const {
  pollfd wanted{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 0) > 0;
}

IoStep Transport::tls_write(std::span<const std::byte> bytes) {
  const auto size = static_cast<int>(std::min(bytes.size(), kTlsRecordBytes));
  return tls_step(SSL_write(ssl_.get(), bytes.data(), size));
}

IoStep Transport::write(std::span<const std::span<const std::byte>> pieces, bool more) {
  CHECK(pieces.size() <= kPiecesMax);
  if (ssl_) {
    // Gathers small pieces into one record; a retry gathers the same bytes again, as TLS demands.
    std::array<std::byte, kTlsRecordBytes> record;  // NOLINT(*-member-init): filled below
    std::size_t size = 0;
    for (const auto& piece : pieces) {
      const std::size_t part = std::min(piece.size(), record.size() - size);
      std::copy_n(piece.begin(), part, record.begin() + static_cast<std::ptrdiff_t>(size));
      size += part;
    }
    return tls_write(std::span(record).first(size));
  }
  std::array<iovec, kPiecesMax> vectors{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    // sendmsg does not write through iov_base.
    vectors[i] = {.iov_base = const_cast<std::byte*>(pieces[i].data()),  // NOLINT(*-const-cast)
                  .iov_len = pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = pieces.size();
  ssize_t result = -1;
  do {
    result = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
  } while (result < 0 && errno == EINTR);
  return socket_step(result, IoState::want_write);
}

IoStep Transport::send_file(int file, std::uint64_t offset, std::uint64_t length) {
  if (ssl_) {
    std::array<std::byte, kTlsRecordBytes> record;  // NOLINT(*-member-init): filled by pread
    const ssize_t got = ::pread(file, record.data(), std::min<std::uint64_t>(length, record.size()),
                                static_cast<off_t>(offset));
    if (got <= 0) return {.state = IoState::ended};
    return tls_write(std::span(record).first(static_cast<std::size_t>(got)));
  }
  auto position = static_cast<off_t>(offset);
  ssize_t result = -1;
  do {
    result =
        ::sendfile(socket_.get(), file, &position, std::min<std::uint64_t>(length, kFileStepBytes));
  } while (result < 0 && errno == EINTR);
  return socket_step(result, IoState::want_write);
}

void Transport::finish_writing() {
  if (ssl_) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  ::shutdown(socket_.get(), SHUT_WR);
}

void Transport::cut() {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void Transport::reset_on_close() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace onggi::http
