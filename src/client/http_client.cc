#include "client/http_client.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/mutex.h"

namespace onggi::client {

namespace {

constexpr long kConnectTimeoutMs = 10'000;
constexpr long kSilenceSeconds = 600;  // a walk over a large vfolder answers late, not never
constexpr long kReceiveBufferBytes = 512 << 10;
constexpr long kSendBufferBytes = 2 << 20;
constexpr std::size_t kErrorBodyBytesMax = 16 << 20;
constexpr int kPollMs = 500;

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

using EasyHandle = std::unique_ptr<CURL, EasyDeleter>;

struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

using HeaderSlist = std::unique_ptr<curl_slist, ListDeleter>;

// What one exchange needs while curl runs it. Outlives the transfer, stays at its address.
struct Exchange {
  CURL* easy = nullptr;
  HeaderSlist headers;
  std::span<const std::byte> body;
  std::size_t body_sent = 0;
  HttpResponse response;
  bool head_seen = false;  // of the final answer
  const CallHooks* hooks = nullptr;
  std::optional<Error> failure;
  std::array<char, CURL_ERROR_SIZE> message{};
};

int status_of(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

// The callbacks below are called by C code; exceptions (out of memory) must not leave them.
std::size_t on_header(const char* data, std::size_t, std::size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  std::string_view line(data, size);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {  // a new head: what came before was a 100 Continue
    exchange.response = {};
    return size;
  }
  if (line.empty()) exchange.head_seen = status_of(exchange.easy) >= 200;
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  std::string name = ascii_lower(line.substr(0, colon));
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  exchange.response.headers.emplace_back(std::move(name), value);
  return size;
}

bool is_success(int status) {
  return status >= 200 && status < 300;
}

std::size_t on_body(const char* data, std::size_t, std::size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (exchange.hooks != nullptr && exchange.hooks->sink && is_success(status_of(exchange.easy))) {
    Status taken = exchange.hooks->sink(std::as_bytes(std::span(data, size)));
    if (taken) return size;
    exchange.failure = std::move(taken).error();
    return 0;
  }
  const bool bounded = !is_success(status_of(exchange.easy));
  if (bounded && exchange.response.body.size() + size > kErrorBodyBytesMax) return 0;
  exchange.response.body.append(data, size);
  return size;
}

std::size_t on_read(char* out, std::size_t, std::size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::size_t count = std::min(size, exchange.body.size() - exchange.body_sent);
  if (count > 0) std::memcpy(out, exchange.body.data() + exchange.body_sent, count);
  exchange.body_sent += count;
  if (exchange.hooks != nullptr && exchange.hooks->sent) exchange.hooks->sent(exchange.body_sent);
  return count;
}

int on_seek(void* user, curl_off_t offset, int origin) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  exchange.body_sent = std::min(static_cast<std::size_t>(offset), exchange.body.size());
  return CURL_SEEKFUNC_OK;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& exchange = *static_cast<Exchange*>(user);
  const bool stop =
      exchange.hooks != nullptr && exchange.hooks->cancelled && exchange.hooks->cancelled();
  return stop ? 1 : 0;
}

void set_destination(CURL* easy, const Connection& connection, const HttpRequest& request) {
  curl_easy_setopt(easy, CURLOPT_URL, (connection.base_url + request.target).c_str());
  if (!connection.unix_socket.empty()) {
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, connection.unix_socket.c_str());
  }
  if (!connection.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, connection.ca_file.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);  // "a/../b" must reach the daemon to be refused
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBufferBytes);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kSendBufferBytes);
}

void set_method(Exchange& exchange, const HttpRequest& request) {
  CURL* easy = exchange.easy;
  if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request.body) {
    exchange.body = *request.body;
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, &on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, &exchange);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, &exchange);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void add_header(HeaderSlist& list, const std::string& line) {
  if (curl_slist* longer = curl_slist_append(list.get(), line.c_str()); longer != nullptr) {
    static_cast<void>(list.release());
    list.reset(longer);
  }
}

void set_headers(Exchange& exchange, const Connection& connection, const HttpRequest& request) {
  add_header(exchange.headers, "Expect:");  // 100-continue would cost a round trip per upload
  if (!connection.token.empty()) {
    add_header(exchange.headers, "Authorization: Bearer " + connection.token);
  }
  for (const auto& [name, value] : request.headers) {
    // curl's spelling of a header without a value ends in a semicolon.
    add_header(exchange.headers, value.empty() ? name + ";" : name + ": " + value);
  }
  if (!request.body && (request.method == "POST" || request.method == "PUT")) {
    add_header(exchange.headers, "Content-Length: 0");
  }
  curl_easy_setopt(exchange.easy, CURLOPT_HTTPHEADER, exchange.headers.get());
  curl_easy_setopt(exchange.easy, CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(exchange.easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(exchange.easy, CURLOPT_ERRORBUFFER, exchange.message.data());
}

bool never_connected(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION;
}

std::string_view remedy(const Connection& connection) {
  const bool local = !connection.unix_socket.empty() ||
                     connection.base_url.find("//127.") != std::string::npos ||
                     connection.base_url.find("//localhost") != std::string::npos ||
                     connection.base_url.find("//[::1]") != std::string::npos;
  return local ? "Start it with `onggi serve`, or name another by --url or ONGGI_URL"
               : "Check the address and whether the daemon listens to the network (server.address)";
}

Error error_of(CURLcode code, const Exchange& exchange, const Connection& connection) {
  const std::string why =
      exchange.message[0] != '\0' ? exchange.message.data() : curl_easy_strerror(code);
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
      return {ErrorCode::cancelled, "interrupted"};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {ErrorCode::invalid_argument,
              fmt::format("'{}' is not a URL of a daemon: {}", connection.base_url, why)};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {ErrorCode::unavailable,
              fmt::format("cannot trust the daemon at {}: {}. If its certificate is your own, name "
                          "its CA by ca_file in a profile or by ONGGI_CA_FILE",
                          connection.display(), why)};
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
      return {ErrorCode::unavailable,
              fmt::format("cannot reach the daemon at {} (from {}): {}. {}", connection.display(),
                          connection.origin, why, remedy(connection))};
    case CURLE_OPERATION_TIMEDOUT:
      return {ErrorCode::unavailable, fmt::format("the daemon at {} did not answer in time: {}",
                                                  connection.display(), why)};
    default:
      return {ErrorCode::unavailable, fmt::format("the connection to the daemon at {} broke: {}",
                                                  connection.display(), why)};
  }
}

std::shared_ptr<void> global_curl() {
  // curl counts its initialisations; a client keeps one for as long as it lives.
  curl_global_init(CURL_GLOBAL_DEFAULT);
  return {nullptr, [](void*) { curl_global_cleanup(); }};
}

}  // namespace

std::optional<std::string_view> HttpResponse::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return std::nullopt;
}

// Idle handles, each with its kept connection. Thread-safe.
class HttpClient::Pool {
 public:
  EasyHandle take() {
    const MutexLock lock(mutex_);
    if (owner_ != getpid()) {
      // Closing the parent's connections here would end them for the parent too (TLS says goodbye).
      for (EasyHandle& handle : idle_) static_cast<void>(handle.release());
      idle_.clear();
      owner_ = getpid();
    }
    if (idle_.empty()) return EasyHandle(curl_easy_init());
    EasyHandle handle = std::move(idle_.back());
    idle_.pop_back();
    return handle;
  }

  void give_back(EasyHandle handle) {
    curl_easy_reset(handle.get());  // forgets options, keeps the connection
    const MutexLock lock(mutex_);
    if (owner_ == getpid() && idle_.size() < kIdleMax) idle_.push_back(std::move(handle));
  }

 private:
  static constexpr std::size_t kIdleMax = 64;

  const std::shared_ptr<void> global_ = global_curl();
  Mutex mutex_;
  pid_t owner_ GUARDED_BY(mutex_) = getpid();
  std::vector<EasyHandle> idle_ GUARDED_BY(mutex_);
};

HttpClient::HttpClient(Connection connection)
    : connection_(std::move(connection)), pool_(std::make_unique<Pool>()) {}

HttpClient::~HttpClient() = default;

Attempt HttpClient::perform(const HttpRequest& request, const CallHooks& hooks) {
  EasyHandle easy = pool_->take();
  Exchange exchange;
  exchange.easy = easy.get();
  exchange.hooks = &hooks;
  set_destination(easy.get(), connection_, request);
  set_method(exchange, request);
  set_headers(exchange, connection_, request);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(easy.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_LOW_SPEED_TIME, kSilenceSeconds);
  curl_easy_setopt(easy.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy.get(), CURLOPT_XFERINFOFUNCTION, &on_progress);
  curl_easy_setopt(easy.get(), CURLOPT_XFERINFODATA, &exchange);

  const CURLcode code = curl_easy_perform(easy.get());
  exchange.response.status = status_of(easy.get());
  pool_->give_back(std::move(easy));
  // A daemon that refuses an upload answers before it has read the body, then closes: the answer
  // counts, not the broken pipe.
  const bool answered_early = (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR) &&
                              exchange.response.status >= 400 && !exchange.response.body.empty();
  if (code == CURLE_OK || answered_early) return {std::move(exchange.response), true};
  if (exchange.failure) return {tl::unexpected(*std::move(exchange.failure)), true};
  return {tl::unexpected(error_of(code, exchange, connection_)), !never_connected(code)};
}

namespace {

struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

// Pulls an answer through a multi handle of its own. Bytes go from curl straight into the reader's
// span; what does not fit waits in spare_, at most one piece of curl's, and curl is paused.
class CurlStream final : public HttpStream {
 public:
  CurlStream(Connection connection, const HttpRequest& request)
      : connection_(std::move(connection)), easy_(curl_easy_init()), multi_(curl_multi_init()) {
    HttpRequest own = request;
    if (request.body) {
      request_body_.assign(request.body->begin(), request.body->end());
      own.body = request_body_;
    }
    exchange_.easy = easy_.get();
    set_destination(easy_.get(), connection_, own);
    set_method(exchange_, own);
    set_headers(exchange_, connection_, own);
    curl_easy_setopt(easy_.get(), CURLOPT_WRITEFUNCTION, &CurlStream::on_piece);
    curl_easy_setopt(easy_.get(), CURLOPT_WRITEDATA, this);
    curl_multi_add_handle(multi_.get(), easy_.get());
  }

  ~CurlStream() override { curl_multi_remove_handle(multi_.get(), easy_.get()); }

  CurlStream(const CurlStream&) = delete;
  CurlStream& operator=(const CurlStream&) = delete;
  CurlStream(CurlStream&&) = delete;
  CurlStream& operator=(CurlStream&&) = delete;

  Status open(const CancelCheck& cancelled) {
    while (!finished_ && !exchange_.head_seen) RETURN_IF_ERROR(step(cancelled));
    exchange_.response.status = status_of(easy_.get());
    if (finished_ && result_ != CURLE_OK) return failure();
    return exchange_.response.ok() ? Status() : collect(cancelled);
  }

  const HttpResponse& head() const override { return exchange_.response; }

  Result<std::size_t> read(std::span<std::byte> out, const CancelCheck& cancelled) override {
    if (closed_) return fail(ErrorCode::cancelled, "the stream was closed");
    if (const std::size_t count = take_spare(out); count > 0 || out.empty()) return count;
    wanted_ = out;
    filled_ = 0;
    if (std::exchange(paused_, false)) curl_easy_pause(easy_.get(), CURLPAUSE_CONT);
    Status status;
    while (filled_ == 0 && !finished_ && status) status = step(cancelled);
    wanted_ = {};
    if (filled_ > 0) return std::exchange(filled_, 0);
    if (!status) return tl::unexpected(std::move(status).error());
    if (result_ != CURLE_OK) return tl::unexpected(failure().value());
    return 0;
  }

  void close() override {
    closed_ = true;
    curl_multi_wakeup(multi_.get());
  }

 private:
  static std::size_t on_piece(const char* data, std::size_t, std::size_t size, void* user) {
    return static_cast<CurlStream*>(user)->take_piece(std::as_bytes(std::span(data, size)));
  }

  std::size_t take_piece(std::span<const std::byte> piece) {
    if (spare_at_ < spare_.size()) {
      paused_ = true;
      return CURL_WRITEFUNC_PAUSE;
    }
    const std::size_t direct = std::min(piece.size(), wanted_.size() - filled_);
    if (direct > 0) std::memcpy(wanted_.data() + filled_, piece.data(), direct);
    filled_ += direct;
    const auto rest = piece.subspan(direct);
    spare_.assign(rest.begin(), rest.end());
    spare_at_ = 0;
    return piece.size();
  }

  std::size_t take_spare(std::span<std::byte> out) {
    const std::size_t count = std::min(out.size(), spare_.size() - spare_at_);
    if (count > 0) std::memcpy(out.data(), spare_.data() + spare_at_, count);
    spare_at_ += count;
    return count;
  }

  // Lets curl work, and waits only when that brought nothing the caller waits for.
  Status step(const CancelCheck& cancelled) {
    if (closed_) return fail(ErrorCode::cancelled, "the stream was closed");
    if (cancelled && cancelled()) return fail(ErrorCode::cancelled, "interrupted");
    int running = 0;
    curl_multi_perform(multi_.get(), &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      finished_ = true;
      result_ = message->data.result;
    }
    const bool has_news = finished_ || filled_ > 0 || (wanted_.empty() && exchange_.head_seen);
    if (!has_news) curl_multi_poll(multi_.get(), nullptr, 0, kPollMs, nullptr);
    return {};
  }

  // The answer is an error: its whole body belongs to the head.
  Status collect(const CancelCheck& cancelled) {
    std::array<std::byte, 4096> piece{};
    std::string& body = exchange_.response.body;
    while (body.size() < kErrorBodyBytesMax) {
      ASSIGN_OR_RETURN(const std::size_t count, read(piece, cancelled));
      if (count == 0) break;
      const std::size_t before = body.size();
      body.resize(before + count);
      std::memcpy(body.data() + before, piece.data(), count);
    }
    return {};
  }

  tl::unexpected<Error> failure() const {
    return tl::unexpected(error_of(result_, exchange_, connection_));
  }

  const std::shared_ptr<void> global_ = global_curl();
  const Connection connection_;
  const EasyHandle easy_;
  const std::unique_ptr<CURLM, MultiDeleter> multi_;
  std::vector<std::byte> request_body_;
  Exchange exchange_;
  std::span<std::byte> wanted_;  // where the reader wants bytes, while it reads
  std::size_t filled_ = 0;
  std::vector<std::byte> spare_;
  std::size_t spare_at_ = 0;
  bool paused_ = false;
  bool finished_ = false;
  CURLcode result_ = CURLE_OK;
  std::atomic<bool> closed_ = false;
};

}  // namespace

Result<std::unique_ptr<HttpStream>> HttpClient::open_stream(const HttpRequest& request,
                                                            const CancelCheck& cancelled) {
  auto stream = std::make_unique<CurlStream>(connection_, request);
  RETURN_IF_ERROR(stream->open(cancelled));
  return stream;
}

}  // namespace onggi::client
