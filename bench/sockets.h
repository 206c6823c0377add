#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

// Blocking loopback sockets for benchmarks. A failure ends the program: there is nothing to
// measure.
namespace bench {

[[noreturn]] inline void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    die("connect");
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

inline void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) die("send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Reads a response's head and leaves what came after it in `rest`.
inline std::string read_head(int fd, std::string& rest) {
  std::string bytes = std::move(rest);
  while (true) {
    const std::size_t end = bytes.find("\r\n\r\n");
    if (end != std::string::npos) {
      rest = bytes.substr(end + 4);
      return bytes.substr(0, end + 4);
    }
    char buffer[4096];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) die("the server closed the connection");
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace bench
