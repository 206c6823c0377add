#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace onggi::redis {

// One answer (RESP2). Errors within a transaction are replies, too; elsewhere they are Errors.
struct Reply {
  enum class Kind : std::uint8_t { nil, text, integer, list, error };
  Kind kind = Kind::nil;
  std::string text;  // of a bulk string, a status or an error
  std::int64_t integer = 0;
  std::vector<Reply> list;

  bool is_nil() const { return kind == Kind::nil; }
};

using Command = std::vector<std::string>;

struct ClientOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  std::string password;  // empty: none
  std::chrono::milliseconds connect_timeout{2000};
  std::chrono::milliseconds answer_timeout{3000};
  std::size_t idle_max = 32;  // connections kept for each database
};

// A Redis or Valkey server. Thread-safe: each call has a connection of its own, taken from those
// that are idle or made. A server that cannot be reached, or that is silent, is `unavailable`;
// whether it did what it was asked is then not known. A call after it has come back succeeds.
class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // An error of the server's is `internal`, with its words.
  Result<Reply> run(int database, const Command& command) EXCLUDES_LOCK(mutex_);
  // All in one round trip, as one transaction (MULTI, EXEC): the answers in order.
  Result<std::vector<Reply>> transact(int database, const std::vector<Command>& commands)
      EXCLUDES_LOCK(mutex_);

  // "host:port", for messages.
  std::string address() const;

 private:
  class Connection;
  Result<std::unique_ptr<Connection>> take(int database) EXCLUDES_LOCK(mutex_);
  // Whatever the answers are.
  Result<std::vector<Reply>> exchange(int database, const std::vector<Command>& commands)
      EXCLUDES_LOCK(mutex_);
  Error in_context(Error error) const;
  void give_back(int database, std::unique_ptr<Connection> connection) EXCLUDES_LOCK(mutex_);

  const ClientOptions options_;
  Mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<Connection>>> idle_ GUARDED_BY(mutex_);
};

}  // namespace onggi::redis
