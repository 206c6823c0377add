#include "redis/client.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/time.h>

namespace onggi::redis {
namespace {

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RawReply = std::unique_ptr<redisReply, FreeReply>;

timeval to_timeval(std::chrono::milliseconds time) {
  return {.tv_sec = time.count() / 1000, .tv_usec = time.count() % 1000 * 1000};
}

Reply to_reply(const redisReply& raw) {
  Reply reply;
  switch (raw.type) {
    case REDIS_REPLY_INTEGER:
      reply.kind = Reply::Kind::integer;
      reply.integer = raw.integer;
      break;
    case REDIS_REPLY_NIL:
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = Reply::Kind::list;
      for (std::size_t i = 0; i < raw.elements; ++i) {
        reply.list.push_back(to_reply(*raw.element[i]));
      }
      break;
    default:
      reply.kind = raw.type == REDIS_REPLY_ERROR ? Reply::Kind::error : Reply::Kind::text;
      reply.text.assign(raw.str, raw.len);
  }
  return reply;
}

// What the server would not do. It answers, but not yet: while it reads its data, or when a script
// keeps it busy.
Error refusal(const std::string& text) {
  const bool later = text.starts_with("LOADING") || text.starts_with("BUSY");
  return {later ? ErrorCode::unavailable : ErrorCode::internal, text};
}

}  // namespace

class Client::Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const ClientOptions& options, int database) {
    std::unique_ptr<redisContext, FreeContext> context(redisConnectWithTimeout(
        options.host.c_str(), options.port, to_timeval(options.connect_timeout)));
    if (!context) return fail(ErrorCode::resource_exhausted, "no memory for a Redis connection");
    auto connection = std::make_unique<Connection>(std::move(context));
    if (connection->context_->err != 0) return tl::unexpected(connection->broken());
    redisSetTimeout(connection->context_.get(), to_timeval(options.answer_timeout));
    std::vector<Command> greeting;
    if (!options.password.empty()) greeting.push_back({"AUTH", options.password});
    if (database != 0) greeting.push_back({"SELECT", std::to_string(database)});
    ASSIGN_OR_RETURN(const std::vector<Reply> replies, connection->exchange(greeting));
    for (const Reply& reply : replies) {
      // Both are settings that are wrong, but the server may be given the right ones.
      if (reply.kind == Reply::Kind::error) return fail(ErrorCode::unavailable, reply.text);
    }
    return connection;
  }

  explicit Connection(std::unique_ptr<redisContext, FreeContext> context)
      : context_(std::move(context)) {}

  // Sends all, then reads an answer to each.
  Result<std::vector<Reply>> exchange(const std::vector<Command>& commands) {
    for (const Command& command : commands) {
      std::vector<const char*> words;
      std::vector<std::size_t> sizes;
      for (const std::string& word : command) {
        words.push_back(word.data());
        sizes.push_back(word.size());
      }
      if (redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), words.data(),
                                 sizes.data()) != REDIS_OK) {
        return tl::unexpected(broken());
      }
    }
    std::vector<Reply> replies;
    while (replies.size() < commands.size()) {
      void* raw = nullptr;
      if (redisGetReply(context_.get(), &raw) != REDIS_OK) return tl::unexpected(broken());
      const RawReply reply(static_cast<redisReply*>(raw));
      replies.push_back(to_reply(*reply));
    }
    return replies;
  }

  // An idle connection has nothing to say: what can be read is its end.
  bool is_stale() const {
    pollfd socket{.fd = context_->fd, .events = POLLIN, .revents = 0};
    return ::poll(&socket, 1, 0) != 0;
  }

 private:
  Error broken() const { return {ErrorCode::unavailable, context_->errstr}; }

  std::unique_ptr<redisContext, FreeContext> context_;
};

Client::Client(ClientOptions options) : options_(std::move(options)) {}
Client::~Client() = default;

std::string Client::address() const {
  return fmt::format("{}:{}", options_.host, options_.port);
}

Result<std::unique_ptr<Client::Connection>> Client::take(int database) {
  while (true) {
    std::unique_ptr<Connection> connection;
    {
      const MutexLock lock(mutex_);
      auto& idle = idle_[database];
      if (idle.empty()) break;
      connection = std::move(idle.back());
      idle.pop_back();
    }
    if (!connection->is_stale()) return connection;
  }
  return Connection::open(options_, database);
}

void Client::give_back(int database, std::unique_ptr<Connection> connection) {
  const MutexLock lock(mutex_);
  auto& idle = idle_[database];
  if (idle.size() < options_.idle_max) idle.push_back(std::move(connection));
}

Result<std::vector<Reply>> Client::exchange(int database, const std::vector<Command>& commands) {
  ASSIGN_OR_RETURN(auto connection, take(database));
  ASSIGN_OR_RETURN(auto replies, connection->exchange(commands));
  give_back(database, std::move(connection));
  return replies;
}

Error Client::in_context(Error error) const {
  return std::move(error).with(fmt::format("Redis at {}", address()));
}

Result<Reply> Client::run(int database, const Command& command) {
  auto replies = exchange(database, {command});
  if (!replies) return tl::unexpected(in_context(std::move(replies).error()));
  Reply& reply = replies->front();
  if (reply.kind != Reply::Kind::error) return std::move(reply);
  return tl::unexpected(in_context(refusal(reply.text)));
}

Result<std::vector<Reply>> Client::transact(int database, const std::vector<Command>& commands) {
  std::vector<Command> framed = {{"MULTI"}};
  framed.insert(framed.end(), commands.begin(), commands.end());
  framed.push_back({"EXEC"});
  auto replies = exchange(database, framed);
  if (!replies) return tl::unexpected(in_context(std::move(replies).error()));
  Reply& executed = replies->back();
  if (executed.kind == Reply::Kind::list) return std::move(executed.list);
  // Nothing was done: a command was refused when it was queued, and that answer says why.
  const auto refused = std::ranges::find(*replies, Reply::Kind::error, &Reply::kind);
  return tl::unexpected(
      in_context(refusal(refused == replies->end() ? "EXEC was not run" : refused->text)));
}

}  // namespace onggi::redis
