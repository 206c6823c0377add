#include "redis/client.h"

#include <chrono>
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "redis/test_server.h"

namespace onggi::redis {
namespace {

class ClientTest : public ::testing::Test {
 protected:
  TestServer server_;
  ClientOptions options_ = server_.options();
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
  server_.stop();
  const auto reply = client.run(0, {"PING"});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::unavailable);
  EXPECT_NE(reply.error().message().find(client.address()), std::string::npos);
  server_.start();
  EXPECT_TRUE(client.run(0, {"PING"}));
}

TEST_F(ClientTest, ASilentServerIsUnavailable) {
  options_.answer_timeout = std::chrono::milliseconds(100);
  Client client(options_);
  ASSERT_TRUE(client.run(0, {"PING"}));
  server_.signal(SIGSTOP);
  const auto reply = client.run(0, {"PING"});
  server_.signal(SIGCONT);
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
