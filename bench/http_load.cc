// Sends requests over kept-alive connections and prints how many rounds a second were done:
//   http_load CONNECTIONS ROUNDS PORT REQUEST [PORT REQUEST]...
//
// A round is the requests in order; each REQUEST is a file with a whole HTTP request, in which {n}
// is the number of the round and {token} the "token" of the JSON answer before. Its Content-Length
// must not depend on them. Any status but 2xx ends the program.

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "sockets.h"

namespace {

struct Step {
  std::uint16_t port = 0;
  std::string request;
};

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::size_t length_in(const std::string& head) {
  for (const char* name : {"Content-Length: ", "content-length: "}) {
    const std::size_t at = head.find(name);
    if (at != std::string::npos) return std::strtoull(head.c_str() + at + 16, nullptr, 10);
  }
  return 0;
}

// A connection of one worker to one port.
class Connection {
 public:
  explicit Connection(std::uint16_t port) : port_(port), fd_(bench::connect_to(port)) {}

  std::string exchange(const std::string& request) {
    bench::send_all(fd_, request);
    const std::string head = bench::read_head(fd_, rest_);
    if (head.compare(9, 1, "2") != 0) {
      fmt::print(stderr, "{}{}\n", head, rest_);
      std::exit(1);
    }
    const std::size_t length = length_in(head);
    while (rest_.size() < length) {
      char buffer[65536];
      const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
      if (got <= 0) bench::die("recv");
      rest_.append(buffer, static_cast<std::size_t>(got));
    }
    std::string body = rest_.substr(0, length);
    rest_.erase(0, length);
    if (head.find("Connection: close") != std::string::npos) {
      ::close(fd_);
      fd_ = bench::connect_to(port_);
    }
    return body;
  }

 private:
  std::uint16_t port_;
  int fd_;
  std::string rest_;
};

std::string token_in(const std::string& body) {
  const std::size_t at = body.find("\"token\"");
  if (at == std::string::npos) return {};
  const std::size_t begin = body.find('"', at + 8) + 1;
  return body.substr(begin, body.find('"', begin) - begin);
}

void work(const std::vector<Step>& steps, std::atomic<int>& next, int rounds) {
  std::vector<Connection> connections;
  for (const Step& step : steps) connections.emplace_back(step.port);
  for (int n = next++; n < rounds; n = next++) {
    std::string token;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::string request = replaced(steps[i].request, "{n}", fmt::format("{:08}", n));
      request = replaced(std::move(request), "{token}", token);
      token = token_in(connections[i].exchange(request));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || argc % 2 == 0) {
    fmt::print(stderr, "usage: see the top of bench/http_load.cc\n");
    return 2;
  }
  const int connections = std::atoi(argv[1]);
  const int rounds = std::atoi(argv[2]);
  std::vector<Step> steps;
  for (int i = 3; i < argc; i += 2) {
    std::ifstream file(argv[i + 1]);
    steps.push_back({static_cast<std::uint16_t>(std::atoi(argv[i])),
                     {std::istreambuf_iterator<char>(file), {}}});
  }
  std::atomic<int> next = 0;
  std::vector<std::thread> threads;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back([&] { work(steps, next, rounds); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  fmt::print("{:.1f}\n", rounds / seconds.count());
}
