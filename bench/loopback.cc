// Moves a file over loopback once and prints the seconds it took:
//   loopback sendfile|splice|send FILE             what the kernel can do: no protocol, one
//   connection loopback get PORT TARGET TOKEN                 a download through a daemon loopback
//   put PORT TARGET TOKEN FILE            an upload to a daemon, durable when answered

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "sockets.h"

namespace {

using bench::die;
constexpr std::size_t kPiece = 1 << 20;

void drain(int fd, std::uint64_t left) {
  std::vector<char> buffer(kPiece);
  while (left > 0) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got <= 0) die("recv");
    left -= static_cast<std::uint64_t>(got);
  }
}

void by_sendfile(int socket, int file, std::uint64_t size) {
  off_t offset = 0;
  while (static_cast<std::uint64_t>(offset) < size) {
    if (::sendfile(socket, file, &offset, size - static_cast<std::uint64_t>(offset)) <= 0) {
      die("sendfile");
    }
  }
}

void by_splice(int socket, int file, std::uint64_t size) {
  int pipe[2];
  if (::pipe(pipe) != 0) die("pipe");
  ::fcntl(pipe[0], F_SETPIPE_SZ, 1 << 20);
  loff_t offset = 0;
  while (static_cast<std::uint64_t>(offset) < size) {
    ssize_t in_pipe = ::splice(file, &offset, pipe[1], nullptr, kPiece, SPLICE_F_MOVE);
    if (in_pipe <= 0) die("splice in");
    while (in_pipe > 0) {
      const ssize_t out = ::splice(pipe[0], nullptr, socket, nullptr,
                                   static_cast<std::size_t>(in_pipe), SPLICE_F_MOVE);
      if (out <= 0) die("splice out");
      in_pipe -= out;
    }
  }
}

void by_send(int socket, int file, std::uint64_t size) {
  std::vector<char> buffer(kPiece);
  std::uint64_t offset = 0;
  while (offset < size) {
    const ssize_t got = ::pread(file, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (got <= 0) die("pread");
    bench::send_all(socket, std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t size_of(int file) {
  struct stat info{};
  if (::fstat(file, &info) != 0) die("fstat");
  return static_cast<std::uint64_t>(info.st_size);
}

template <typename Send>
void limit(const char* path, Send send) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) die(path);
  const std::uint64_t size = size_of(file);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = bench::loopback(0);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    die("listen");
  }
  std::thread sender([&] { send(::accept(listener, nullptr, nullptr), file, size); });
  const int socket = bench::connect_to(ntohs(address.sin_port));
  drain(socket, size);
  sender.join();
}

std::uint64_t length_in(const std::string& head) {
  const std::size_t at = head.find("Content-Length: ");
  if (at == std::string::npos || head.find(" 20") != 8) {
    fmt::print(stderr, "{}", head);
    std::exit(1);
  }
  return std::strtoull(head.c_str() + at + 16, nullptr, 10);
}

void get(std::uint16_t port, const char* target, const char* token) {
  const int socket = bench::connect_to(port);
  bench::send_all(socket,
                  fmt::format("GET {} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\r\n",
                              target, token));
  std::string rest;
  const std::uint64_t length = length_in(bench::read_head(socket, rest));
  drain(socket, length - rest.size());
}

void put(std::uint16_t port, const char* target, const char* token, const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) die(path);
  const std::uint64_t size = size_of(file);
  const int socket = bench::connect_to(port);
  bench::send_all(socket,
                  fmt::format("PUT {} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n"
                              "Content-Length: {}\r\n\r\n",
                              target, token, size));
  by_sendfile(socket, file, size);
  std::string rest;
  length_in(bench::read_head(socket, rest));
}

std::uint16_t port_from(const char* text) {
  return static_cast<std::uint16_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  const auto began = std::chrono::steady_clock::now();
  if (mode == "sendfile" && argc == 3) {
    limit(argv[2], by_sendfile);
  } else if (mode == "splice" && argc == 3) {
    limit(argv[2], by_splice);
  } else if (mode == "send" && argc == 3) {
    limit(argv[2], by_send);
  } else if (mode == "get" && argc == 5) {
    get(port_from(argv[2]), argv[3], argv[4]);
  } else if (mode == "put" && argc == 6) {
    put(port_from(argv[2]), argv[3], argv[4], argv[5]);
  } else {
    fmt::print(stderr, "usage: see the top of bench/loopback.cc\n");
    return 2;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  fmt::print("{:.6f}\n", seconds.count());
}
