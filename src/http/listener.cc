#include "http/listener.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

namespace onggi::http {
namespace {

constexpr int kBacklog = 4096;
constexpr int kAcceptsPerTurn = 128;

// Any address the socket calls take.
union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
  sockaddr_un local;
};

Result<socklen_t> fill_address(const std::string& text, std::uint16_t port, Address& out) {
  std::memset(&out, 0, sizeof out);
  if (::inet_pton(AF_INET, text.c_str(), &out.v4.sin_addr) == 1) {
    out.v4.sin_family = AF_INET;
    out.v4.sin_port = htons(port);
    return static_cast<socklen_t>(sizeof out.v4);
  }
  if (::inet_pton(AF_INET6, text.c_str(), &out.v6.sin6_addr) == 1) {
    out.v6.sin6_family = AF_INET6;
    out.v6.sin6_port = htons(port);
    return static_cast<socklen_t>(sizeof out.v6);
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("'{}' is not an IPv4 or IPv6 address", text));
}

Result<socklen_t> fill_address(const std::string& path, Address& out) {
  std::memset(&out, 0, sizeof out);
  out.local.sun_family = AF_UNIX;
  if (path.size() >= sizeof out.local.sun_path) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the socket's path is longer than {} bytes: {}",
                            sizeof out.local.sun_path - 1, path));
  }
  path.copy(out.local.sun_path, path.size());
  return static_cast<socklen_t>(sizeof out.local);
}

Status clear_stale(const std::string& path, const Address& address, socklen_t size) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode)) {
    return fail(ErrorCode::already_exists, fmt::format("{} is there and is not a socket", path));
  }
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(probe.get(), &address.any, size) == 0) {
    return fail(ErrorCode::already_exists, fmt::format("somebody listens on {} already", path));
  }
  if (::unlink(path.c_str()) != 0) return fail_errno(path);
  return {};
}

Result<FileDescriptor> listen_on(const Address& address, socklen_t size, const std::string& name) {
  FileDescriptor socket(
      ::socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("socket");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), &address.any, size) != 0) {
    return fail_errno(fmt::format("listen on {}", name));
  }
  if (::listen(socket.get(), kBacklog) != 0) return fail_errno("listen");
  return socket;
}

Peer describe(int socket, const Address& address) {
  Peer peer;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.any.sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &address.v4.sin_addr, text.data(), text.size());
    peer.address = fmt::format("{}:{}", text.data(), ntohs(address.v4.sin_port));
  } else if (address.any.sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &address.v6.sin6_addr, text.data(), text.size());
    peer.address = fmt::format("[{}]:{}", text.data(), ntohs(address.v6.sin6_port));
  } else {
    peer.address = "unix";
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
      peer.uid = credentials.uid;
    }
  }
  return peer;
}

}  // namespace

Listener::Listener(FileDescriptor socket, std::string path)
    : socket_(std::move(socket)), path_(std::move(path)) {}

Listener::~Listener() {
  close();
}

Result<std::unique_ptr<Listener>> Listener::tcp(const std::string& address, std::uint16_t port) {
  Address to{};
  ASSIGN_OR_RETURN(const socklen_t size, fill_address(address, port, to));
  ASSIGN_OR_RETURN(FileDescriptor socket,
                   listen_on(to, size, fmt::format("{} port {}", address, port)));
  return std::unique_ptr<Listener>(new Listener(std::move(socket), {}));
}

Result<std::unique_ptr<Listener>> Listener::unix_socket(const std::string& path) {
  Address to{};
  ASSIGN_OR_RETURN(const socklen_t size, fill_address(path, to));
  RETURN_IF_ERROR(clear_stale(path, to, size));
  ASSIGN_OR_RETURN(FileDescriptor socket, listen_on(to, size, path));
  return std::unique_ptr<Listener>(new Listener(std::move(socket), path));
}

std::uint16_t Listener::port() const {
  Address bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(socket_.get(), &bound.any, &size) != 0) return 0;
  return ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
}

Status Listener::start(EventLoop& loop, Accept accept) {
  loop_ = &loop;
  accept_ = std::move(accept);
  return loop.add(socket_.get(), *this, EPOLLIN);
}

void Listener::close() {
  if (!socket_) return;
  if (loop_ != nullptr) loop_->remove(socket_.get());
  socket_.reset();
  if (!path_.empty()) ::unlink(path_.c_str());
}

void Listener::on_tick() {
  if (std::exchange(starved_, false)) on_ready(EPOLLIN);
}

void Listener::on_ready(std::uint32_t /*events*/) {
  for (int i = 0; i < kAcceptsPerTurn && socket_; ++i) {
    Address from{};
    socklen_t size = sizeof from;
    FileDescriptor socket(::accept4(socket_.get(), &from.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      starved_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (starved_)
        LOG_WARN("cannot accept connections",
                 {{"error", error_from_errno(errno, "accept4").message()}});
      if (errno == ECONNABORTED || errno == EINTR) continue;
      break;
    }
    const int on = 1;
    if (from.any.sa_family != AF_UNIX) {
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    Peer peer = describe(socket.get(), from);
    accept_(std::move(socket), std::move(peer));
  }
  // A starved listener waits for the next tick: its backlog would wake the loop without end.
  if (socket_ && !starved_) loop_->arm(socket_.get(), *this, EPOLLIN);
}

}  // namespace onggi::http
