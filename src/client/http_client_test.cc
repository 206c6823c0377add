#include "client/http_client.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "client/client.h"
#include "http/router.h"
#include "http/server.h"
#include "metrics/metrics.h"

namespace onggi::client {
namespace {

// Bytes without end, until somebody leaves.
class Endless final : public http::Stream {
 public:
  explicit Endless(std::atomic<bool>& left) : left_(left) {}
  Result<std::span<const std::byte>> next() override {
    if (gone_) return std::span<const std::byte>();
    return as_bytes("0123456789");
  }
  void cancel() override {
    gone_ = true;
    left_ = true;
    left_.notify_all();
  }

 private:
  std::atomic<bool>& left_;
  std::atomic<bool> gone_ = false;
};

// A real server that fails as it is told.
class HttpClientTest : public testing::Test {
 protected:
  HttpClientTest() {
    router.handle(http::Method::get, "/hello", [](http::Request& request) {
      http::Response response;
      response.headers.set("X-Token",
                           std::string(request.headers.get("Authorization").value_or("")));
      response.text = "hello";
      return response;
    });
    for (const http::Method method : {http::Method::get, http::Method::post}) {
      router.handle(method, "/busy/{times}", [this](http::Request& request) {
        http::Response response;
        response.status = ++calls < std::stoi(request.params.at("times")) ? 503 : 200;
        return response;
      });
    }
    router.handle(http::Method::put, "/echo", [](http::Request& request) {
      http::Response response;
      response.text = request.body;
      return response;
    });
    router.handle(http::Method::get, "/endless", [this](http::Request&) {
      http::Response response;
      response.stream = std::make_unique<Endless>(left);
      return response;
    });
    router.handle(http::Method::get, "/missing", [](http::Request& request) {
      return http::problem(404, "not_found", "nothing here", request.request_id);
    });
    socket = testing::TempDir() + "onggi-client-" + std::to_string(getpid()) + ".sock";
    auto started = http::Server::start({.unix_socket = socket}, router, registry);
    EXPECT_TRUE(started);
    server = *std::move(started);
  }

  Connection connection() const {
    return {.base_url = "http://127.0.0.1:" + std::to_string(server->port()),
            .unix_socket = {},
            .token = "t0",
            .ca_file = {},
            .origin = "the test"};
  }

  Connection nobody() const {
    Connection connection = this->connection();
    connection.base_url = "http://127.0.0.1:1";
    return connection;
  }

  http::Router router;
  metrics::Registry registry;
  FakeClock clock;
  std::string socket;
  std::atomic<int> calls = 0;
  std::atomic<bool> left = false;
  std::unique_ptr<http::Server> server;
};

TEST_F(HttpClientTest, BringsStatusHeadersAndBody) {
  HttpClient client(connection());
  const Attempt attempt = client.perform({.target = "/hello"});
  ASSERT_TRUE(attempt.response);
  EXPECT_EQ(attempt.response->status, 200);
  EXPECT_EQ(attempt.response->body, "hello");
  EXPECT_EQ(attempt.response->header("x-token"), "Bearer t0");
}

TEST_F(HttpClientTest, TalksOverAUnixSocket) {
  Connection local = connection();
  local.unix_socket = socket;
  local.base_url = "http://localhost";
  HttpClient client(local);
  EXPECT_EQ(client.perform({.target = "/hello"}).response->body, "hello");
}

TEST_F(HttpClientTest, SendsBodiesOfEverySize) {
  HttpClient client(connection());
  std::size_t seen = 0;
  for (const std::size_t size : {0, 1, 70'000, 5'000'000}) {
    const std::string body(size, 'x');
    const Attempt attempt =
        client.perform({.method = "PUT", .target = "/echo", .body = as_bytes(body)},
                       {.sent = [&](std::uint64_t total) { seen = total; }});
    ASSERT_TRUE(attempt.response) << attempt.response.error().message();
    EXPECT_EQ(attempt.response->body, body);
    EXPECT_EQ(seen, size);
  }
}

TEST_F(HttpClientTest, TheSinkTakesTheBodyAndCanRefuseIt) {
  HttpClient client(connection());
  std::string body;
  const auto take = [&](std::span<const std::byte> piece) -> Status {
    for (const std::byte b : piece) body += static_cast<char>(b);
    return {};
  };
  EXPECT_EQ(client.perform({.target = "/hello"}, {.sink = take}).response->body, "");
  EXPECT_EQ(body, "hello");
  const auto refuse = [](std::span<const std::byte>) -> Status {
    return fail(ErrorCode::storage_full, "no room");
  };
  const Attempt refused = client.perform({.target = "/hello"}, {.sink = refuse});
  ASSERT_FALSE(refused.response);
  EXPECT_EQ(refused.response.error().code(), ErrorCode::storage_full);
}

TEST_F(HttpClientTest, NobodyThereIsAnErrorWithARemedy) {
  HttpClient client(nobody());
  const Attempt attempt = client.perform({.target = "/"});
  ASSERT_FALSE(attempt.response);
  EXPECT_FALSE(attempt.reached);
  EXPECT_EQ(attempt.response.error().code(), ErrorCode::unavailable);
  EXPECT_NE(attempt.response.error().message().find("onggi serve"), std::string::npos);
}

TEST_F(HttpClientTest, AStreamIsReadPieceByPieceAndClosedFromElsewhere) {
  HttpClient client(connection());
  auto stream = client.open_stream({.target = "/endless"});
  ASSERT_TRUE(stream) << stream.error().message();
  EXPECT_EQ((*stream)->head().status, 200);
  std::array<std::byte, 25> buffer{};
  std::string text;
  while (text.size() < 1000) {
    const auto count = (*stream)->read(buffer);
    ASSERT_TRUE(count);
    for (std::size_t i = 0; i < *count; ++i) text += static_cast<char>(buffer.at(i));
  }
  EXPECT_TRUE(text.starts_with("01234567890123456789012345678901234567890"));
  std::jthread closer([&] { (*stream)->close(); });
  while (true) {
    const auto count = (*stream)->read(buffer);
    if (count) continue;
    EXPECT_EQ(count.error().code(), ErrorCode::cancelled);
    break;
  }
  stream->reset();
  left.wait(false);  // the server noticed
}

TEST_F(HttpClientTest, AStreamsErrorAnswerIsInItsHead) {
  HttpClient client(connection());
  const auto stream = client.open_stream({.target = "/missing"});
  ASSERT_TRUE(stream);
  EXPECT_EQ((*stream)->head().status, 404);
  EXPECT_EQ(error_of((*stream)->head()).message(), "nothing here");
}

TEST_F(HttpClientTest, CancellingEndsACall) {
  HttpClient client(connection());
  const Attempt attempt =
      client.perform({.target = "/endless"}, {.cancelled = [] { return true; }});
  ASSERT_FALSE(attempt.response);
  EXPECT_EQ(attempt.response.error().code(), ErrorCode::cancelled);
}

TEST_F(HttpClientTest, ABusyServerIsAskedAgainWhateverTheMethod) {
  Client client(connection(), clock);
  EXPECT_TRUE(client.perform({.method = "POST", .target = "/busy/3"}));
  EXPECT_EQ(calls, 3);
  EXPECT_GE(clock.steady_now().time_since_epoch(), std::chrono::milliseconds(300));
}

TEST_F(HttpClientTest, RetryingEndsAndSaysWhy) {
  Client client(connection(), clock, {.attempts_max = 2});
  const auto answer = client.perform({.target = "/busy/100"});
  EXPECT_FALSE(answer);
  EXPECT_EQ(calls, 2);
}

TEST_F(HttpClientTest, ARefusedConnectionIsTriedAgain) {
  Client client(nobody(), clock);
  EXPECT_FALSE(client.perform({.method = "POST", .target = "/"}));
  EXPECT_GE(clock.steady_now().time_since_epoch(), std::chrono::milliseconds(700));
}

TEST_F(HttpClientTest, ProblemsBecomeErrors) {
  Client client(connection(), clock);
  const auto answer = client.call("GET", "/missing");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::not_found);
  EXPECT_EQ(answer.error().message(), "nothing here");
}

}  // namespace
}  // namespace onggi::client
