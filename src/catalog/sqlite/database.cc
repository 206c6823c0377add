#include "catalog/sqlite/database.h"

#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"
#include "base/encoding.h"

namespace onggi::catalog {
namespace {

ErrorCode code_of(int code) {
  if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY) {
    return ErrorCode::already_exists;
  }
  if (code == SQLITE_CONSTRAINT_FOREIGNKEY) return ErrorCode::conflict;
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::unavailable;
    case SQLITE_FULL:
      return ErrorCode::storage_full;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::corruption;
    case SQLITE_TOOBIG:
      return ErrorCode::too_large;
    default:
      return ErrorCode::internal;
  }
}

}  // namespace

Error error_from_sqlite(sqlite3* db, int code, std::string_view context) {
  const int extended = db == nullptr ? code : sqlite3_extended_errcode(db);
  const char* text = db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db);
  return {code_of(extended), fmt::format("catalog: {}: {}", context, text)};
}

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_), statement_(std::exchange(other.statement_, nullptr)) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Statement::bind_one(int index, std::string_view value) {
  const int rc = sqlite3_bind_text64(statement_, index, value.data(), value.size(),
                                     SQLITE_TRANSIENT, SQLITE_UTF8);
  CHECK(rc == SQLITE_OK || rc == SQLITE_NOMEM || rc == SQLITE_TOOBIG);
}

void Statement::bind_one(int index, std::int64_t value) {
  CHECK(sqlite3_bind_int64(statement_, index, value) == SQLITE_OK);
}

void Statement::bind_one(int index, UnixTime value) {
  bind_one(index, std::int64_t{value.time_since_epoch().count()});
}

void Statement::bind_one(int index, const Uuid& value) {
  const auto& bytes = value.bytes();
  CHECK(sqlite3_bind_blob64(statement_, index, bytes.data(), bytes.size(), SQLITE_TRANSIENT) ==
        SQLITE_OK);
}

void Statement::bind_one(int index, Blob value) {
  const char* data = value.bytes.empty() ? "" : value.bytes.data();  // a null pointer means NULL
  CHECK(sqlite3_bind_blob64(statement_, index, data, value.bytes.size(), SQLITE_TRANSIENT) ==
        SQLITE_OK);
}

Result<bool> Statement::step() {
  const int rc = sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return tl::unexpected(error_from_sqlite(db_, rc, "cannot run a statement"));
}

Status Statement::run() {
  ASSIGN_OR_RETURN([[maybe_unused]] const bool row, step());
  return {};
}

Status Statement::run_on_one(std::string_view what) {
  RETURN_IF_ERROR(run());
  if (sqlite3_changes64(db_) == 0)
    return fail(ErrorCode::not_found, fmt::format("no such {}", what));
  return {};
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string Statement::text(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

Uuid Statement::uuid(int column) const {
  const std::string bytes = text(column);
  CHECK(bytes.size() == 16);  // the schema checks it
  return Uuid::parse(hex_encode(as_bytes(bytes))).value_or(Uuid());
}

UnixTime Statement::time(int column) const {
  return UnixTime(std::chrono::milliseconds(integer(column)));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path,
                                                     std::chrono::milliseconds busy) {
  // SQLite's count of its memory is a lock that all connections share; only the first can say so.
  [[maybe_unused]] static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  sqlite3* db = nullptr;
  // NOMUTEX: a connection is used by one thread at a time anyway.
  const int rc = sqlite3_open_v2(
      path.c_str(), &db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  std::unique_ptr<Connection> connection(new Connection(db));
  if (rc != SQLITE_OK) return tl::unexpected(error_from_sqlite(db, rc, "cannot open"));
  sqlite3_busy_timeout(db, static_cast<int>(busy.count()));
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close_v2(db_);
}

Result<Statement> Connection::prepare(std::string_view sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return Statement(db_, found->second);
  sqlite3_stmt* statement = nullptr;
  const int rc = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                    SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (rc != SQLITE_OK) return tl::unexpected(error_from_sqlite(db_, rc, "cannot prepare"));
  statements_.emplace(sql, statement);
  return Statement(db_, statement);
}

Status Connection::execute(const std::string& sql) {
  const int rc = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK) return tl::unexpected(error_from_sqlite(db_, rc, "cannot execute"));
  return {};
}

Result<std::int64_t> Connection::pragma(const std::string& name) {
  sqlite3_stmt* raw = nullptr;
  const int rc = sqlite3_prepare_v2(db_, ("PRAGMA " + name).c_str(), -1, &raw, nullptr);
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
  if (rc != SQLITE_OK) return tl::unexpected(error_from_sqlite(db_, rc, name));
  const int step = sqlite3_step(raw);
  if (step != SQLITE_ROW) return tl::unexpected(error_from_sqlite(db_, step, name));
  return sqlite3_column_int64(raw, 0);
}

Result<Transaction> Transaction::begin(Connection& connection) {
  ASSIGN_OR_RETURN(auto statement, connection.prepare("BEGIN IMMEDIATE"));
  RETURN_IF_ERROR(statement.run());
  return Transaction(&connection);
}

Transaction::Transaction(Transaction&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)) {}

Transaction::~Transaction() {
  // SQLite may have rolled back by itself; then this one is refused, and that is fine.
  if (connection_ != nullptr) static_cast<void>(connection_->execute("ROLLBACK"));
}

Status Transaction::commit() {
  ASSIGN_OR_RETURN(auto statement, connection_->prepare("COMMIT"));
  RETURN_IF_ERROR(statement.run());
  connection_ = nullptr;
  return {};
}

Database::Database(std::unique_ptr<Connection> writer,
                   std::vector<std::unique_ptr<Connection>> readers)
    : writer_(std::move(writer)), readers_(std::move(readers)) {
  for (const auto& reader : readers_) readers_free_.push_back(reader.get());
}

Database::Lease Database::writer() {
  const MutexLock lock(mutex_);
  while (!writer_free_) writer_came_.wait(mutex_);
  writer_free_ = false;
  return {*this, writer_.get(), true};
}

Database::Lease Database::reader() {
  const MutexLock lock(mutex_);
  while (readers_free_.empty()) reader_came_.wait(mutex_);
  Connection* connection = readers_free_.back();
  readers_free_.pop_back();
  return {*this, connection, false};
}

void Database::give_back(Connection* connection, bool writes) {
  {
    const MutexLock lock(mutex_);
    if (writes) {
      writer_free_ = true;
    } else {
      readers_free_.push_back(connection);
    }
  }
  (writes ? writer_came_ : reader_came_).notify_one();
}

Database::Lease::~Lease() {
  if (connection_ != nullptr) database_->give_back(connection_, writes_);
}

}  // namespace onggi::catalog
