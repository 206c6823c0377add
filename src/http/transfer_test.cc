#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/mutex.h"
#include "http/raw_client.h"
#include "http/server.h"

namespace onggi::http {
namespace {

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 131 + (i >> 10));
  return text;
}

FileDescriptor file_with(const std::string& text) {
  FileDescriptor file(::memfd_create("body", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

// What a test's sink has seen; shared with the test.
struct Seen {
  std::string bytes;
  std::size_t commits = 0;
  std::latch ended{1};
  bool abandoned = false;
  std::size_t fail_after = SIZE_MAX;  // bytes
};

class TestSink final : public Sink {
 public:
  TestSink(Seen& seen, std::size_t space) : seen_(seen), space_(space) {}

  std::span<std::byte> buffer() override { return space_; }
  Status commit(std::size_t bytes) override {
    ++seen_.commits;
    for (std::size_t i = 0; i < bytes; ++i) seen_.bytes += static_cast<char>(space_[i]);
    if (seen_.bytes.size() > seen_.fail_after) return fail(ErrorCode::storage_full, "full");
    return {};
  }
  Response finish() override {
    Response response;
    response.status = seen_.bytes.size() > seen_.fail_after ? 507 : 201;
    response.text = std::to_string(seen_.bytes.size());
    seen_.ended.count_down();
    return response;
  }
  void abandon() override {
    seen_.abandoned = true;
    seen_.ended.count_down();
  }

 private:
  Seen& seen_;
  std::vector<std::byte> space_;
};

// Gives numbers until told to stop or to block.
class TestStream final : public Stream {
 public:
  struct Control {
    std::size_t pieces = 3;
    bool block_at_end = false;
    bool fail_at_end = false;
    std::atomic<int> cancels{0};
    std::atomic<int> destroyed{0};
  };

  explicit TestStream(Control& control) : control_(control) {}
  ~TestStream() override {
    ++control_.destroyed;
    control_.destroyed.notify_all();
  }

  Result<std::span<const std::byte>> next() override {
    if (sent_ < control_.pieces) {
      piece_ = "piece " + std::to_string(sent_++) + "\n";
      return as_bytes(piece_);
    }
    if (control_.fail_at_end) return fail(ErrorCode::corruption, "broken");
    if (control_.block_at_end) {
      const MutexLock lock(mutex_);
      while (!cancelled_) cancel_.wait(mutex_);
    }
    return std::span<const std::byte>();
  }

  void cancel() override {
    const MutexLock lock(mutex_);
    ++control_.cancels;
    cancelled_ = true;
    cancel_.notify_all();
  }

 private:
  Control& control_;
  std::size_t sent_ = 0;
  std::string piece_;
  Mutex mutex_;
  CondVar cancel_;
  bool cancelled_ = false;
};

class TransferTest : public testing::Test {
 protected:
  TransferTest() {
    options_.handler_threads = 4;
    router_.handle(Method::get, "/file", [this](Request& request) {
      Response response;
      const bool part = request.query.contains("part");
      response.file = FileBody{.file = FileDescriptor(::dup(file_.get())),
                               .offset = part ? 1000U : 0U,
                               .length = part ? 5000U : file_size_};
      return response;
    });
    router_.take(Method::put, "/sink", [this](Request&) {
      Intake intake;
      intake.sink = std::make_unique<TestSink>(seen_, sink_space_);
      return intake;
    });
    router_.take(Method::put, "/refused", [](Request& request) {
      Intake intake;
      intake.response = problem(401, "unauthenticated", "no token", request.request_id);
      return intake;
    });
    router_.handle(Method::get, "/stream", [this](Request&) {
      Response response;
      response.stream = std::make_unique<TestStream>(control_);
      return response;
    });
    router_.handle(Method::get, "/hello", [](Request&) {
      Response response;
      response.text = "hello";
      return response;
    });
  }
  ~TransferTest() override { server_.reset(); }

  void start() {
    auto server = Server::start(options_, router_, metrics_);
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }
  RawClient client() { return RawClient(server_->port()); }
  void use_file(const std::string& text) {
    file_ = file_with(text);
    file_size_ = text.size();
  }
  void wait_destroyed(int count) {
    for (int seen = control_.destroyed; seen < count; seen = control_.destroyed) {
      control_.destroyed.wait(seen);
    }
  }

  ServerOptions options_;
  Router router_;
  metrics::Registry metrics_;
  FileDescriptor file_;
  std::uint64_t file_size_ = 0;
  Seen seen_;
  std::size_t sink_space_ = 1 << 20;
  TestStream::Control control_;
  std::unique_ptr<Server> server_;
};

constexpr std::string_view kHello = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::string_view kStream = "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::string_view kFile = "GET /file HTTP/1.1\r\nHost: h\r\n\r\n";

std::string put(std::string_view path, std::size_t length, std::string_view fields = "") {
  return "PUT " + std::string(path) +
         " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(length) + "\r\n" +
         std::string(fields) + "\r\n";
}

TEST_F(TransferTest, SendsFilesAndRanges) {
  const std::string text = pattern(20'000'000);
  use_file(text);
  start();
  auto c = client();
  EXPECT_TRUE(c.ask(kFile).body == text);
  const auto part = c.ask("GET /file?part HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(part.headers.get("Content-Length"), "5000");
  EXPECT_TRUE(part.body == text.substr(1000, 5000));
  EXPECT_EQ(c.ask("HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n").headers.get("Content-Length"),
            "20000000");
  EXPECT_EQ(c.ask(kHello).body, "hello");
}

TEST_F(TransferTest, ASlowReaderHoldsNoThread) {
  const std::string text = pattern(30'000'000);
  use_file(text);
  options_.handler_threads = 1;
  start();
  auto slow = client();
  slow.send(kFile);
  EXPECT_EQ(slow.read_bytes(1).size(), 1U);
  EXPECT_EQ(client().ask(kHello).body, "hello");
  EXPECT_EQ(slow.read_answer().status, 0);  // its first byte is gone already
  EXPECT_TRUE(slow.read_bytes(text.size()) == text);
}

TEST_F(TransferTest, AFileThatShrankCutsTheConnection) {
  use_file("short");
  file_size_ = 100;
  start();
  auto c = client();
  const auto answer = c.ask(kFile);
  EXPECT_EQ(answer.body, "short");
  EXPECT_FALSE(answer.whole);
}

TEST_F(TransferTest, FeedsASinkInLargeSteps) {
  const std::string text = pattern(50'000'000);
  start();
  auto c = client();
  c.send(put("/sink", text.size()));
  c.send(text);
  const auto answer = c.read_answer();
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, "50000000");
  EXPECT_TRUE(seen_.bytes == text);
  EXPECT_EQ(c.ask(kHello).body, "hello");
}

TEST_F(TransferTest, ASmallBodyIsOneCommit) {
  start();
  auto c = client();
  EXPECT_EQ(c.ask(put("/sink", 5) + "hello").body, "5");
  EXPECT_EQ(seen_.bytes, "hello");
  EXPECT_EQ(seen_.commits, 1U);
}

TEST_F(TransferTest, AnEmptyBodyIsFinishedAtOnce) {
  start();
  auto c = client();
  EXPECT_EQ(c.ask(put("/sink", 0)).body, "0");
  EXPECT_EQ(seen_.commits, 0U);
}

TEST_F(TransferTest, NeverReadsPastTheBody) {
  start();
  auto c = client();
  c.send(put("/sink", 5) + "hello" + std::string(kHello));
  EXPECT_EQ(c.read_answer().body, "5");
  EXPECT_EQ(c.read_answer().body, "hello");
  EXPECT_EQ(seen_.bytes, "hello");
}

TEST_F(TransferTest, DecodesChunksIntoASink) {
  sink_space_ = 70'000;
  const std::string text = pattern(3'000'000);
  start();
  auto c = client();
  c.send("PUT /sink HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  // Chunks below and above the size that is read straight into the sink.
  for (std::size_t at = 0, size = 1; at < text.size(); at += size, size = size * 3 + 7) {
    const std::string part = text.substr(at, size);
    char head[32];
    std::snprintf(head, sizeof head, "%zx\r\n", part.size());
    c.send(head + part + "\r\n");
  }
  c.send("0\r\n\r\n" + std::string(kHello));
  EXPECT_EQ(c.read_answer().body, "3000000");
  EXPECT_TRUE(seen_.bytes == text);
  EXPECT_EQ(c.read_answer().body, "hello");
}

TEST_F(TransferTest, AMalformedChunkAbandonsTheSink) {
  start();
  auto c = client();
  const auto answer = c.ask(
      "PUT /sink HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n");
  EXPECT_EQ(answer.status, 400);
  seen_.ended.wait();
  EXPECT_TRUE(seen_.abandoned);
  EXPECT_EQ(seen_.bytes, "abc");
  EXPECT_TRUE(c.at_end());
}

TEST_F(TransferTest, APeerThatLeavesAbandonsTheSinkWithWhatCame) {
  start();
  auto c = client();
  c.send(put("/sink", 100) + "half");
  c.close();
  seen_.ended.wait();
  EXPECT_TRUE(seen_.abandoned);
  EXPECT_EQ(seen_.bytes, "half");
}

TEST_F(TransferTest, AStalledBodyAbandonsTheSink) {
  options_.stall_timeout = std::chrono::seconds(1);
  start();
  auto c = client();
  c.send(put("/sink", 100) + "half");
  seen_.ended.wait();
  EXPECT_TRUE(seen_.abandoned);
}

TEST_F(TransferTest, ASinkThatFailsAnswersWithoutReadingTheRest) {
  seen_.fail_after = 1'000'000;
  start();
  auto c = client();
  const std::string text = pattern(64'000'000);
  std::thread sender([&] { c.send(put("/sink", text.size()) + text); });
  sender.join();
  EXPECT_EQ(c.read_answer().status, 507);
  EXPECT_LT(seen_.bytes.size(), text.size());
}

TEST_F(TransferTest, SinksSayContinueOrRefuseWithoutTheBody) {
  start();
  auto c = client();
  EXPECT_EQ(c.ask(put("/sink", 5, "Expect: 100-continue\r\n")).status, 100);
  EXPECT_EQ(c.ask("hello").body, "5");
  const auto answer = c.ask(put("/refused", 1'000'000, "Expect: 100-continue\r\n"));
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.headers.get("Connection"), "close");
  auto d = client();
  EXPECT_EQ(d.ask(put("/refused", 5) + "hello").status, 401);
  EXPECT_EQ(d.ask(kHello).body, "hello");  // the small body was there and is dropped
}

TEST_F(TransferTest, StreamsInChunksAndGoesOn) {
  start();
  auto c = client();
  const auto answer = c.ask(kStream);
  EXPECT_EQ(answer.headers.get("Transfer-Encoding"), "chunked");
  EXPECT_EQ(answer.body, "piece 0\npiece 1\npiece 2\n");
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(c.ask(kHello).body, "hello");
  EXPECT_EQ(c.ask(kStream).body, "piece 0\npiece 1\npiece 2\n");
  EXPECT_EQ(control_.cancels, 0);
  auto old = client();
  EXPECT_EQ(old.ask("GET /stream HTTP/1.0\r\n\r\n").body, "piece 0\npiece 1\npiece 2\n");
}

TEST_F(TransferTest, AHeadOfAStreamMakesNothing) {
  control_.block_at_end = true;
  start();
  auto c = client();
  EXPECT_EQ(c.ask("HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  EXPECT_EQ(control_.cancels, 1);
  EXPECT_EQ(c.ask(kHello).body, "hello");
}

TEST_F(TransferTest, AFailedStreamNeverLooksComplete) {
  control_.fail_at_end = true;
  start();
  auto c = client();
  const auto answer = c.ask(kStream);
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.whole);
  auto old = client();
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  old.read_all();
  wait_destroyed(2);
}

TEST_F(TransferTest, APeerThatLeavesCancelsItsStreamOnce) {
  control_.block_at_end = true;
  start();
  auto closed = client();
  closed.send(kStream);
  closed.read_until("piece 2");
  auto reset = client();
  reset.send(kStream);
  reset.read_until("piece 2");
  auto pipelining = client();
  pipelining.send(std::string(kStream) + std::string(kHello));
  pipelining.read_until("piece 2");
  closed.close();
  reset.reset();
  wait_destroyed(2);
  EXPECT_EQ(control_.cancels, 2);
  EXPECT_EQ(control_.destroyed, 2);
  pipelining.shut_down_sending();  // seen although the second request waits unread
  wait_destroyed(3);
  EXPECT_EQ(control_.cancels, 3);
}

TEST_F(TransferTest, APeerThatLeavesABusyStreamEndsIt) {
  control_.pieces = SIZE_MAX;
  start();
  auto c = client();
  c.send(kStream);
  c.read_until("piece 1000\n");
  c.close();
  wait_destroyed(1);
  EXPECT_EQ(control_.cancels, 1);
}

TEST_F(TransferTest, TooManyStreamsAnswer503) {
  control_.block_at_end = true;
  options_.stream_threads = 1;
  start();
  auto c = client();
  c.send(kStream);
  c.read_until("piece 2");
  auto d = client();
  const auto answer = d.ask(kStream);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.get("Retry-After"), "1");
  EXPECT_EQ(d.ask(kHello).body, "hello");
}

TEST_F(TransferTest, StoppingCutsEndlessStreamsAfterTheGrace) {
  control_.block_at_end = true;
  start();
  auto c = client();
  c.send(kStream);
  c.read_until("piece 2");
  EXPECT_FALSE(server_->stop(std::chrono::milliseconds(50)));
  EXPECT_EQ(control_.destroyed, 1);
  EXPECT_FALSE(c.read_all().ends_with("0\r\n\r\n"));
}

}  // namespace
}  // namespace onggi::http
