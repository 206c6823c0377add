#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "client/http_client.h"

namespace onggi::client {

struct RetryOptions {
  int attempts_max = 4;
  Duration first_pause = std::chrono::milliseconds(100);
  Duration pause_max = std::chrono::seconds(10);  // also of a Retry-After that asks for more
};

struct RemoteEntry {
  std::string path;  // from the listed directory
  std::string kind;  // file, directory, symlink, other
  std::uint64_t size_bytes = 0;
  UnixTime modified{};
  std::uint32_t mode = 0;
  std::string etag;
};

// A client of one daemon's API. Thread-safe. Calls block; what a daemon answers with problem
// details comes back as that Error, its detail as the message.
class Client {
 public:
  Client(Connection connection, Clock& clock, RetryOptions retry = {});

  // Tries idempotent methods again when the connection breaks, any method when the daemon was not
  // reached or answered 503. A sink is not called twice for the same bytes: with one, only attempts
  // that brought nothing are repeated. Any answer is a success here.
  Result<HttpResponse> exchange(const HttpRequest& request, const CallHooks& hooks = {});
  // The same, with answers of 400 and more as errors.
  Result<HttpResponse> perform(const HttpRequest& request, const CallHooks& hooks = {});
  // JSON in (null: no body), JSON out (null: no body).
  Result<boost::json::value> call(std::string_view method, std::string target,
                                  const boost::json::value& body = nullptr,
                                  const CancelCheck& cancelled = {});
  // All items of a paged list; `target` may have a query.
  Result<boost::json::array> call_all(std::string_view target, const CancelCheck& cancelled = {});

  // The id of the vfolder called `name` on `volume`; not_found names what is close.
  Result<std::string> find_vfolder(std::string_view volume, std::string_view name);
  // What is below a directory; not_found when it is not there.
  Result<std::vector<RemoteEntry>> list(const std::string& vfolder, std::string_view path,
                                        bool recursive, const CancelCheck& cancelled = {});
  Result<RemoteEntry> stat(const std::string& vfolder, std::string_view path);

  HttpClient& http() { return http_; }
  Clock& clock() { return clock_; }
  const Connection& connection() const { return http_.connection(); }

 private:
  bool may_repeat(const HttpRequest& request, const Attempt& attempt) const;
  Duration pause_before(int attempt, const Attempt& last) const;
  Status pause(Duration duration, const CancelCheck& cancelled);
  Error unknown_vfolder(std::string_view volume, std::string_view name);

  HttpClient http_;
  Clock& clock_;
  const RetryOptions retry_;
};

// "/v1/vfolders/<id>/<what>/<path>" with the path encoded.
std::string vfolder_target(std::string_view vfolder, std::string_view what, std::string_view path);

// The Error that an answer of 400 or more stands for.
Error error_of(const HttpResponse& response);
// The code of this name; internal for one that this client does not know.
ErrorCode parse_error_code(std::string_view name);

// "2026-11-30T09:41:07.123Z", as the daemon writes times, and back.
Result<UnixTime> parse_time(std::string_view text);
std::string format_time(UnixTime time);

// The member of `known` that was most likely meant; none when nothing is close.
std::optional<std::string> closest(std::string_view meant, const std::vector<std::string>& known);

}  // namespace onggi::client
