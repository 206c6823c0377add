#pragma once

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/file_descriptor.h"
#include "http/message.h"

namespace onggi::http {

// A client that sends exactly the bytes a test wants. Gives up after 20 s without a byte.
class RawClient {
 public:
  struct Answer {
    int status = 0;  // 0: the connection ended before a whole response came
    Headers headers;
    std::string body;
    bool whole = false;
  };

  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }

  explicit RawClient(const std::string& unix_path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    unix_path.copy(to.sun_path, sizeof to.sun_path - 1);
    connect(reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }

  bool connected() const { return connected_; }
  int descriptor() const { return socket_.get(); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  void shut_down_sending() { ::shutdown(socket_.get(), SHUT_WR); }
  void close() { socket_.reset(); }
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket_.reset();
  }

  // The bytes up to and with `end`; what came after stays for later.
  std::string read_until(std::string_view end) {
    while (true) {
      const std::size_t found = held_.find(end);
      if (found != std::string::npos) return take(found + end.size());
      if (!fill()) return take(held_.size());
    }
  }

  std::string read_bytes(std::size_t count) {
    while (held_.size() < count && fill()) {
    }
    return take(std::min(count, held_.size()));
  }

  // Everything until the peer closes.
  std::string read_all() {
    while (fill()) {
    }
    return take(held_.size());
  }
  bool at_end() { return held_.empty() && !fill(); }

  // One response; `to_head` says that it has no body.
  Answer read_answer(bool to_head = false) {
    Answer answer;
    const std::string head = read_until("\r\n\r\n");
    if (!head.starts_with("HTTP/1.1 ") || !head.ends_with("\r\n\r\n")) return answer;
    std::from_chars(head.data() + 9, head.data() + 12, answer.status);
    parse_fields(head, answer);
    if (answer.status < 200 || answer.status == 204 || answer.status == 304 || to_head) {
      answer.whole = true;
    } else if (answer.headers.get("Transfer-Encoding") == "chunked") {
      read_chunks(answer);
    } else if (const auto length = answer.headers.get("Content-Length")) {
      std::size_t size = 0;
      std::from_chars(length->data(), length->data() + length->size(), size);
      answer.body = read_bytes(size);
      answer.whole = answer.body.size() == size;
    } else {
      answer.body = read_all();
      answer.whole = true;
    }
    return answer;
  }

  Answer ask(std::string_view request) {
    send(request);
    return read_answer(request.starts_with("HEAD "));
  }

 private:
  void connect(const sockaddr* to, socklen_t size) {
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    connected_ = ::connect(socket_.get(), to, size) == 0;
  }

  bool fill() {
    std::array<char, 65536> bytes{};
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    held_.append(bytes.data(), static_cast<std::size_t>(got));
    return true;
  }

  std::string take(std::size_t count) {
    std::string taken = held_.substr(0, count);
    held_.erase(0, count);
    return taken;
  }

  static void parse_fields(std::string_view head, Answer& answer) {
    head.remove_prefix(head.find("\r\n") + 2);
    while (!head.starts_with("\r\n")) {
      const std::size_t colon = head.find(": ");
      const std::size_t end = head.find("\r\n");
      answer.headers.add(std::string(head.substr(0, colon)),
                         std::string(head.substr(colon + 2, end - colon - 2)));
      head.remove_prefix(end + 2);
    }
  }

  void read_chunks(Answer& answer) {
    while (true) {
      const std::string line = read_until("\r\n");
      std::size_t size = 0;
      const auto parsed = std::from_chars(line.data(), line.data() + line.size(), size, 16);
      if (parsed.ec != std::errc() || !line.ends_with("\r\n")) return;
      const std::string data = read_bytes(size + 2);
      if (data.size() != size + 2) return;
      answer.body.append(data, 0, size);
      if (size > 0) continue;
      answer.whole = true;
      return;
    }
  }

  FileDescriptor socket_;
  bool connected_ = false;
  std::string held_;
};

}  // namespace onggi::http
