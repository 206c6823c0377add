#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "redis/client.h"

namespace onggi::redis {

// The real server, of the package redis-server, on a free port; for tests.
class TestServer {
 public:
  TestServer() : options_{.port = free_port(), .password = "secret"} { start(); }
  ~TestServer() { stop(); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  void start() {
    const std::string port = std::to_string(options_.port);
    const std::vector<const char*> words = {
        "redis-server", "--port",    port.c_str(),    "--bind", "127.0.0.1", "--save", "",
        "--logfile",    "/dev/null", "--requirepass", "secret", nullptr};
    ASSERT_EQ(::posix_spawnp(&process_, words[0], nullptr, nullptr,
                             const_cast<char* const*>(words.data()), environ),
              0)
        << "install redis-server";
    for (int i = 0; i < 400; ++i) {
      if (Client(options_).run(0, {"PING"})) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    FAIL() << "redis-server does not answer";
  }

  void stop() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

  void signal(int number) const { ::kill(process_, number); }
  const ClientOptions& options() const { return options_; }

 private:
  static std::uint16_t free_port() {
    const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), length);
    ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
  }

  ClientOptions options_;
  pid_t process_ = 0;
};

}  // namespace onggi::redis
