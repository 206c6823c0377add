#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/uuid.h"

struct sqlite3;
struct sqlite3_stmt;

namespace onggi::catalog {

// Bytes rather than text.
struct Blob {
  std::string_view bytes;
};

// A prepared statement borrowed from its connection's cache; given back clean by the destructor.
class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;

  // Binds parameters 1, 2, … in order.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }

  // True while there is a row.
  Result<bool> step();
  // For statements without rows.
  Status run();
  // As run(), and not_found saying `what` when no row was changed.
  Status run_on_one(std::string_view what);

  std::int64_t integer(int column) const;
  std::string text(int column) const;
  Uuid uuid(int column) const;
  UnixTime time(int column) const;
  bool is_null(int column) const;

 private:
  void bind_one(int index, std::string_view value);
  void bind_one(int index, const std::string& value) { bind_one(index, std::string_view(value)); }
  void bind_one(int index, std::int64_t value);
  void bind_one(int index, UnixTime value);
  void bind_one(int index, const Uuid& value);
  void bind_one(int index, Blob value);
  template <typename T>
  void bind_one(int index, const std::optional<T>& value) {
    if (value) bind_one(index, *value);  // an unbound parameter is NULL
  }

  sqlite3* db_;
  sqlite3_stmt* statement_;
};

// One connection and its cache of prepared statements. One thread at a time.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const std::string& path,
                                                  std::chrono::milliseconds busy);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&&) = delete;
  Connection& operator=(Connection&&) = delete;

  // `sql` must be a literal: the cache refers to it.
  Result<Statement> prepare(std::string_view sql);
  // Statements without parameters, separated by semicolons.
  Status execute(const std::string& sql);
  Result<std::int64_t> pragma(const std::string& name);

 private:
  explicit Connection(sqlite3* db) : db_(db) {}

  sqlite3* db_;
  std::unordered_map<std::string_view, sqlite3_stmt*> statements_;
};

// BEGIN IMMEDIATE to commit(); rolled back when destroyed before.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection);
  ~Transaction();
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Status commit();

 private:
  explicit Transaction(Connection* connection) : connection_(connection) {}
  Connection* connection_;  // null once over
};

// One connection that writes and several that read: in WAL mode a reader never waits for the
// writer's fsync. Thread-safe.
class Database {
 public:
  // A connection on loan; the destructor returns it.
  class Lease {
   public:
    Lease(Database& database, Connection* connection, bool writes)
        : database_(&database), connection_(connection), writes_(writes) {}
    ~Lease();
    Lease(Lease&& other) noexcept
        : database_(other.database_), connection_(other.connection_), writes_(other.writes_) {
      other.connection_ = nullptr;
    }
    Lease& operator=(Lease&&) = delete;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Connection* operator->() const { return connection_; }
    Connection& operator*() const { return *connection_; }

   private:
    Database* database_;
    Connection* connection_;  // null once moved from
    bool writes_;
  };

  Database(std::unique_ptr<Connection> writer, std::vector<std::unique_ptr<Connection>> readers);

  Lease writer() EXCLUDES_LOCK(mutex_);
  Lease reader() EXCLUDES_LOCK(mutex_);

 private:
  void give_back(Connection* connection, bool writes) EXCLUDES_LOCK(mutex_);

  const std::unique_ptr<Connection> writer_;
  const std::vector<std::unique_ptr<Connection>> readers_;
  Mutex mutex_;
  CondVar writer_came_;
  CondVar reader_came_;
  bool writer_free_ GUARDED_BY(mutex_) = true;
  std::vector<Connection*> readers_free_ GUARDED_BY(mutex_);
};

// The Error for a result code of SQLite's: unique and primary-key violations are already_exists,
// foreign-key ones conflict, busy is unavailable.
Error error_from_sqlite(sqlite3* db, int code, std::string_view context);

}  // namespace onggi::catalog
