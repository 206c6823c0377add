#include "http/server.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "http/raw_client.h"

namespace onggi::http {
namespace {

using std::chrono::seconds;

Response text(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.headers.set("Content-Type", "text/plain");
  response.text = std::move(body);
  return response;
}

std::string get(std::string_view path, std::string_view fields = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n" + std::string(fields) + "\r\n";
}

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    options_.handler_threads = 4;
    router_.handle(Method::get, "/hello", [](Request&) { return text("hello"); });
    router_.handle(Method::get, "/echo/{path*}",
                   [](Request& request) { return text(request.params["path"]); });
    router_.handle(Method::post, "/echo", [](Request& request) { return text(request.body); });
    router_.handle(Method::get, "/peer", [](Request& request) {
      return text(request.peer.uid ? std::to_string(*request.peer.uid) : request.peer.address);
    });
    router_.handle(Method::get, "/id", [](Request& request) { return text(request.request_id); });
    router_.handle(Method::del, "/gone", [](Request&) { return text("", 204); });
    router_.handle(Method::get, "/throws",
                   [](Request&) -> Response { throw std::runtime_error("secret detail"); });
    router_.handle(Method::get, "/split", [](Request&) {
      Response response = text("x");
      response.headers.set("X-Note", "a\r\nInjected: b");
      return response;
    });
  }

  void start() {
    auto server = Server::start(options_, router_, metrics_);
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }
  RawClient client() { return RawClient(server_->port()); }

  ServerOptions options_;
  Router router_;
  metrics::Registry metrics_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ItsOwnRefusalsAreRenderedAsTheOptionSays) {
  options_.body_bytes_max = 4;
  options_.render_refusal = [](const Request& request, int status, std::string_view) {
    return text(request.path, status);
  };
  start();
  auto c = client();
  const auto unknown = c.ask(get("/nope"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, "/nope");
  const auto wrong = c.ask("PUT /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.body, "/hello");
  EXPECT_EQ(wrong.headers.get("Allow"), "GET");
  const auto large = c.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345");
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(large.body, "/echo");
}

TEST_F(ServerTest, AnswersManyRequestsOnOneConnection) {
  start();
  auto c = client();
  for (int i = 0; i < 3; ++i) {
    const auto answer = c.ask(get("/hello"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "hello");
    EXPECT_EQ(answer.headers.get("Server"), "onggi");
    EXPECT_TRUE(answer.headers.get("Date")->ends_with(" GMT"));
    EXPECT_FALSE(answer.headers.get("Connection"));
  }
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  auto c = client();
  std::string requests;
  for (int i = 0; i < 1000; ++i)
    requests += get(i % 3 == 0 ? "/none" : "/echo/" + std::to_string(i));
  std::thread sender([&] { c.send(requests); });
  for (int i = 0; i < 1000; ++i) {
    const auto answer = c.read_answer();
    ASSERT_EQ(answer.status, i % 3 == 0 ? 404 : 200) << i;
    if (i % 3 != 0) {
      ASSERT_EQ(answer.body, std::to_string(i));
    }
  }
  sender.join();
}

TEST_F(ServerTest, TakesARequestByteByByte) {
  start();
  auto c = client();
  for (const char byte : get("/hello")) ASSERT_TRUE(c.send(std::string_view(&byte, 1)));
  EXPECT_EQ(c.read_answer().body, "hello");
}

TEST_F(ServerTest, ClosesWhenAskedTo) {
  start();
  auto c = client();
  const auto answer = c.ask(get("/hello", "Connection: close\r\n"));
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.headers.get("Connection"), "close");
  EXPECT_TRUE(c.at_end());
}

TEST_F(ServerTest, SpeaksToHttp10) {
  start();
  auto c = client();
  EXPECT_EQ(
      c.ask("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").headers.get("Connection"),
      "keep-alive");
  EXPECT_EQ(c.ask("GET /hello HTTP/1.0\r\n\r\n").body, "hello");
  EXPECT_TRUE(c.at_end());
}

TEST_F(ServerTest, HeadHasTheLengthAndNoBody) {
  start();
  auto c = client();
  const auto answer = c.ask("HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.get("Content-Length"), "5");
  EXPECT_EQ(c.ask(get("/hello")).body, "hello");
  const auto gone = c.ask("DELETE /gone HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(gone.status, 204);
  EXPECT_FALSE(gone.headers.get("Content-Length"));
}

TEST_F(ServerTest, CollectsBodiesOfEitherFraming) {
  start();
  auto c = client();
  EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello").body,
            "hello");
  EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n").body, "");
  EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
                .body,
            "abcde");
  std::string large(3'000'000, 'x');
  EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n" + large).body,
            large);
  std::string chunks;  // more than one turn of the loop, and more at a time than one chunk
  for (int i = 0; i < 150; ++i) chunks += "4e20\r\n" + large.substr(0, 20'000) + "\r\n";
  EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks +
                  "0\r\n\r\n")
                .body,
            large);
  EXPECT_EQ(c.ask(get("/hello")).body, "hello");
}

TEST_F(ServerTest, RefusesBodiesAboveTheLimit) {
  options_.body_bytes_max = 1000;
  start();
  auto c = client();
  EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n").status, 413);
  EXPECT_TRUE(c.at_end());
  auto d = client();
  EXPECT_EQ(d.ask("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                  std::string(1001, 'x') + "\r\n0\r\n\r\n")
                .status,
            413);
}

TEST_F(ServerTest, SaysContinueWhenTheClientWaits) {
  start();
  auto c = client();
  EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
                  "Expect: 100-continue\r\n\r\n")
                .status,
            100);
  EXPECT_EQ(c.ask("hello").body, "hello");
}

TEST_F(ServerTest, AnswersWhatIsMalformedAndCloses) {
  start();
  const std::pair<std::string_view, int> cases[] = {
      {"\x16\x03\x01\x02", 400},
      {"GET /hello\r\n\r\n", 400},
      {"GET /hello HTTP/1.1\r\n\r\n", 400},
      {"GET /hello HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n", 501},
      {"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505},
  };
  for (const auto& [bytes, status] : cases) {
    auto c = client();
    const auto answer = c.ask(bytes);
    EXPECT_EQ(answer.status, status) << bytes;
    EXPECT_EQ(answer.headers.get("Content-Type"), "application/problem+json");
    EXPECT_EQ(answer.headers.get("Connection"), "close");
    EXPECT_TRUE(c.at_end()) << bytes;
  }
  EXPECT_NE(metrics_.text().find("onggi_http_rejected_total{reason=\"malformed\"} 8"),
            std::string::npos)
      << metrics_.text();
}

TEST_F(ServerTest, RefusesHeadsAboveTheLimit) {
  options_.header_bytes_max = 4096;
  start();
  auto c = client();
  EXPECT_EQ(c.ask("GET /hello HTTP/1.1\r\nHost: h\r\nX: " + std::string(20'000, 'a')).status, 431);
  EXPECT_TRUE(c.at_end());
}

TEST_F(ServerTest, TellsPathsFromMethods) {
  start();
  auto c = client();
  EXPECT_EQ(c.ask(get("/none")).status, 404);
  const auto answer = c.ask("PUT /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.headers.get("Allow"), "GET");
  EXPECT_EQ(c.ask(get("/echo/a%")).status, 400);
  EXPECT_EQ(c.ask(get("/hello")).status, 200);  // the connection is still good
}

TEST_F(ServerTest, CountsByRoutePattern) {
  start();
  auto c = client();
  for (const char* path : {"/echo/a", "/echo/b", "/none"}) c.ask(get(path));
  c.ask(get("/hello"));  // the counts of a request are there once the next is answered
  const std::string all = metrics_.text();
  EXPECT_NE(all.find("onggi_http_requests_total{route=\"/echo/{path*}\",method=\"GET\","
                     "code=\"200\"} 2"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("onggi_http_requests_total{route=\"none\",method=\"GET\",code=\"404\"} 1"),
            std::string::npos);
  EXPECT_NE(all.find("onggi_http_connections 1"), std::string::npos);
}

TEST_F(ServerTest, EchoesASaneRequestIdAndReplacesOthers) {
  start();
  auto c = client();
  auto answer = c.ask(get("/id", "X-Request-Id: abc-1.2_3\r\n"));
  EXPECT_EQ(answer.body, "abc-1.2_3");
  EXPECT_EQ(answer.headers.get("X-Request-Id"), "abc-1.2_3");
  answer = c.ask(get("/id", "X-Request-Id: a b\r\n"));
  EXPECT_NE(answer.body, "a b");
  EXPECT_EQ(answer.headers.get("X-Request-Id"), answer.body);
  EXPECT_NE(c.ask(get("/id")).body, answer.body);
}

TEST_F(ServerTest, AHandlerThatThrowsIsA500WithoutTheReason) {
  start();
  auto c = client();
  const auto answer = c.ask(get("/throws"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  EXPECT_EQ(c.ask(get("/hello")).status, 200);
}

TEST_F(ServerTest, HandlersCannotInjectFields) {
  start();
  auto c = client();
  EXPECT_FALSE(c.ask(get("/split")).headers.get("Injected"));
}

TEST_F(ServerTest, KnowsWhoIsAtAUnixSocket) {
  options_.unix_socket = testing::TempDir() + "onggi-http-test.sock";
  start();
  RawClient c(options_.unix_socket);
  ASSERT_TRUE(c.connected());
  EXPECT_EQ(c.ask(get("/peer")).body, std::to_string(::getuid()));
  EXPECT_TRUE(client().ask(get("/peer")).body.starts_with("127.0.0.1:"));
  // Its owner lives: a second server does not take the socket away.
  EXPECT_EQ(Server::start(options_, router_, metrics_).error().code(), ErrorCode::already_exists);
  server_.reset();
  EXPECT_NE(::access(options_.unix_socket.c_str(), F_OK), 0);
}

TEST_F(ServerTest, TimesOutSlowHeads) {
  options_.header_timeout = seconds(1);
  start();
  auto c = client();
  EXPECT_EQ(c.ask("GET /hello HTTP/1.1\r\nHost:").status, 408);
  EXPECT_TRUE(c.at_end());
}

TEST_F(ServerTest, TimesOutIdleConnectionsAndStalledBodies) {
  options_.idle_timeout = seconds(1);
  options_.stall_timeout = seconds(1);
  start();
  auto idle = client();
  auto stalled = client();
  stalled.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
  EXPECT_TRUE(idle.at_end());
  EXPECT_EQ(stalled.read_answer().status, 408);
}

TEST_F(ServerTest, RefusesConnectionsAboveTheLimit) {
  options_.connections_max = 2;
  start();
  auto a = client();
  auto b = client();
  EXPECT_EQ(a.ask(get("/hello")).status, 200);
  EXPECT_EQ(b.ask(get("/hello")).status, 200);
  auto c = client();
  const auto answer = c.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.get("Retry-After"), "1");
}

class BusyServerTest : public ServerTest {
 protected:
  BusyServerTest() {
    router_.handle(Method::get, "/block", [this](Request&) {
      ++blocked_;
      blocked_.notify_all();
      release_.wait();
      return text("done");
    });
  }
  ~BusyServerTest() override {
    if (!release_.try_wait()) release_.count_down();
    server_.reset();  // before what its handlers use
  }

  void wait_blocked(int count) {
    for (int seen = blocked_; seen < count; seen = blocked_) blocked_.wait(seen);
  }

  std::atomic<int> blocked_{0};
  std::latch release_{1};
};

TEST_F(BusyServerTest, AFullPoolAnswers503) {
  options_.handler_threads = 1;
  start();
  auto blocker = client();
  blocker.send(get("/block"));
  wait_blocked(1);
  constexpr int kMayWait = 64;
  constexpr int kTooMany = 6;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<pollfd> answered;
  for (int i = 0; i < kMayWait + kTooMany; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send(get("/hello"));
    answered.push_back({clients.back()->descriptor(), POLLIN, 0});
  }
  // The only thread is busy: who is answered now is refused.
  int now = 0;
  for (int tries = 0; tries < 500 && now < kTooMany; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    now = ::poll(answered.data(), answered.size(), 0);
  }
  EXPECT_EQ(now, kTooMany);
  release_.count_down();
  int refused = 0;
  for (const auto& client : clients) {
    const auto answer = client->read_answer();
    if (answer.status != 503) continue;
    ++refused;
    EXPECT_EQ(answer.headers.get("Retry-After"), "1");
  }
  EXPECT_EQ(refused, kTooMany);
  EXPECT_EQ(blocker.read_answer().body, "done");
}

TEST_F(BusyServerTest, StoppingFinishesWhatRunsAndRefusesTheRest) {
  start();
  auto idle = client();
  auto half = client();
  auto working = client();
  EXPECT_EQ(idle.ask(get("/hello")).status, 200);
  // The loop reads in the order of arrival: once the second is blocked, the first has begun.
  half.send("GET /hello HTTP/1.1\r\n");
  working.send(get("/block"));
  wait_blocked(1);
  bool finished = false;
  std::thread stopper([&] { finished = server_->stop(seconds(30)); });
  EXPECT_TRUE(idle.at_end());
  EXPECT_FALSE(RawClient(server_->port()).connected());
  EXPECT_EQ(half.ask("Host: h\r\n\r\n").status, 200);  // had begun before: finished
  release_.count_down();
  const auto answer = working.read_answer();
  EXPECT_EQ(answer.body, "done");
  EXPECT_EQ(answer.headers.get("Connection"), "close");
  stopper.join();
  EXPECT_TRUE(finished);
}

TEST_F(BusyServerTest, StoppingCutsWhatOutlastsTheGrace) {
  start();
  auto half = client();
  half.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
  auto working = client();
  working.send(get("/block"));
  wait_blocked(1);
  std::thread releaser([&] {
    EXPECT_EQ(half.read_answer().status, 0);  // cut
    release_.count_down();
  });
  EXPECT_FALSE(server_->stop(std::chrono::milliseconds(50)));
  releaser.join();
}

}  // namespace
}  // namespace onggi::http
