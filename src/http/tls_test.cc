#include <cstdlib>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "http/raw_client.h"
#include "http/server.h"

namespace onggi::http {
namespace {

class CountingSink final : public Sink {
 public:
  std::span<std::byte> buffer() override { return space_; }
  Status commit(std::size_t bytes) override {
    count_ += bytes;
    return {};
  }
  Response finish() override {
    Response response;
    response.text = std::to_string(count_);
    return response;
  }
  void abandon() override {}

 private:
  std::vector<std::byte> space_ = std::vector<std::byte>(1 << 20);
  std::size_t count_ = 0;
};

class TlsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string stem = testing::TempDir() + "onggi-tls-test";
    options_.tls = {.certificate_file = stem + ".pem", .key_file = stem + ".key"};
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=localhost -out " +
        options_.tls.certificate_file + " -keyout " + options_.tls.key_file + " 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    router_.handle(Method::get, "/hello", [](Request&) {
      Response response;
      response.text = "hello";
      return response;
    });
    router_.handle(Method::get, "/file", [](Request&) {
      Response response;
      const std::string text(3'000'000, 'f');
      FileDescriptor file(::memfd_create("body", MFD_CLOEXEC));
      EXPECT_EQ(::write(file.get(), text.data(), text.size()), 3'000'000);
      response.file = FileBody{.file = std::move(file), .offset = 0, .length = text.size()};
      return response;
    });
    router_.take(Method::put, "/sink", [](Request&) {
      Intake intake;
      intake.sink = std::make_unique<CountingSink>();
      return intake;
    });
    auto server = Server::start(options_, router_, metrics_);
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }

  // Sends over TLS and reads until the peer closes.
  std::string talk(const std::string& bytes) {
    RawClient socket(server_->port());
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
    SSL_set_fd(ssl.get(), socket.descriptor());
    if (SSL_connect(ssl.get()) != 1) return "no handshake";
    EXPECT_EQ(SSL_write(ssl.get(), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
    std::string all;
    std::string piece(65536, '\0');
    while (true) {
      const int got = SSL_read(ssl.get(), piece.data(), static_cast<int>(piece.size()));
      if (got <= 0) return all;
      all.append(piece, 0, static_cast<std::size_t>(got));
    }
  }

  ServerOptions options_;
  Router router_;
  metrics::Registry metrics_;
  std::unique_ptr<Server> server_;
};

TEST_F(TlsTest, ServesPipelinedRequestsFilesAndSinks) {
  const std::string get = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::string last = "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  const std::string all = talk(get + "GET /file HTTP/1.1\r\nHost: h\r\n\r\n" +
                               "PUT /sink HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n" +
                               std::string(2'000'000, 's') + last);
  EXPECT_NE(all.find(std::string(3'000'000, 'f') + "HTTP/1.1 200 OK"), std::string::npos);
  EXPECT_NE(all.find("\r\n\r\n2000000HTTP/1.1 200 OK"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\nhello"));
}

TEST_F(TlsTest, PlainTextIsNoHandshake) {
  RawClient socket(server_->port());
  socket.send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_FALSE(socket.read_all().starts_with("HTTP/1.1 200"));
}

TEST_F(TlsTest, SaysWhichFileIsWrong) {
  options_.tls.key_file = "/nonexistent.key";
  const auto server = Server::start(options_, router_, metrics_);
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message().find("/nonexistent.key"), std::string::npos);
}

}  // namespace
}  // namespace onggi::http
