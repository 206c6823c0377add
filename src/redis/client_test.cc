#include "redis/client.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace onggi::redis {
namespace {

std::uint16_t free_port() {
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

// The real server, of the package redis-server.
class ClientTest : public ::testing::Test {
 protected:
  ClientTest() { start(); }
  ~ClientTest() override { stop(); }

  void start() {
    const std::string port = std::to_string(options_.port);
    const std::vector<const char*> words = {
        "redis-server",  "--port", port.c_str(), "--bind",  "127.0.0.1", "--save", "",
        "--requirepass", "secret", "--loglevel", "warning", nullptr};
    ASSERT_EQ(::posix_spawnp(&server_, words[0], nullptr, nullptr,
                             const_cast<char* const*>(words.data()), environ),
              0);
    for (int i = 0; i < 200; ++i) {
      if (Client(options_).run(0, {"PING"})) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    FAIL() << "redis-server does not answer";
  }

  void stop() {
    if (server_ == 0) return;
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
    server_ = 0;
  }

  ClientOptions options_ = {.port = free_port(), .password = "secret"};
  pid_t server_ = 0;
};

TEST_F(ClientTest, AnswersOfEachKindArrive) {
  Client client(options_);
  EXPECT_EQ(client.run(0, {"SET", "key", std::string("a\0b", 3)}).value().text, "OK");
  EXPECT_EQ(client.run(0, {"GET", "key"}).value().text, std::string("a\0b", 3));
  EXPECT_TRUE(client.run(0, {"GET", "none"}).value().is_nil());
  EXPECT_EQ(client.run(0, {"INCRBY", "count", "7"}).value().integer, 7);
  const Reply list = client.run(0, {"MGET", "key", "none"}).value();
  ASSERT_EQ(list.list.size(), 2U);
  EXPECT_TRUE(list.list[1].is_nil());
}

TEST_F(ClientTest, DatabasesAreSeparate) {
  Client client(options_);
  ASSERT_TRUE(client.run(8, {"SET", "key", "eight"}));
  EXPECT_TRUE(client.run(4, {"GET", "key"}).value().is_nil());
  EXPECT_EQ(client.run(8, {"GET", "key"}).value().text, "eight");
}

TEST_F(ClientTest, AnErrorOfTheServersHasItsWords) {
  Client client(options_);
  const auto reply = client.run(0, {"INCRBY", "key", "many"});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::internal);
  EXPECT_NE(reply.error().message().find("not an integer"), std::string::npos);
  EXPECT_TRUE(client.run(0, {"PING"}));
}

TEST_F(ClientTest, ATransactionAnswersInOrderOrDoesNothing) {
  Client client(options_);
  const auto replies = client.transact(
      8, {{"SET", "lease", "me", "NX"}, {"SET", "lease", "you", "NX"}, {"GET", "lease"}});
  ASSERT_TRUE(replies) << replies.error().message();
  EXPECT_EQ((*replies)[0].text, "OK");
  EXPECT_TRUE((*replies)[1].is_nil());
  EXPECT_EQ((*replies)[2].text, "me");

  const auto refused = client.transact(8, {{"SET", "other", "x"}, {"NO-SUCH-COMMAND"}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("NO-SUCH-COMMAND"), std::string::npos);
  EXPECT_TRUE(client.run(8, {"GET", "other"}).value().is_nil());
}

TEST_F(ClientTest, AServerThatIsGoneIsUnavailableUntilItIsBack) {
  Client client(options_);
  ASSERT_TRUE(client.run(0, {"PING"}));
  stop();
  const auto reply = client.run(0, {"PING"});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::unavailable);
  EXPECT_NE(reply.error().message().find(client.address()), std::string::npos);
  start();
  EXPECT_TRUE(client.run(0, {"PING"}));
}

TEST_F(ClientTest, ASilentServerIsUnavailable) {
  options_.answer_timeout = std::chrono::milliseconds(100);
  Client client(options_);
  ASSERT_TRUE(client.run(0, {"PING"}));
  ::kill(server_, SIGSTOP);
  const auto reply = client.run(0, {"PING"});
  ::kill(server_, SIGCONT);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(client.run(0, {"PING"}));
}

TEST_F(ClientTest, AWrongPasswordIsToldWithoutThePassword) {
  options_.password = "hunter2";
  Client client(options_);
  const auto reply = client.run(0, {"PING"});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::unavailable);
  EXPECT_EQ(reply.error().message().find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace onggi::redis
