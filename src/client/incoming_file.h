#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/result.h"
#include "client/client.h"
#include "client/transfer.h"

namespace onggi::client {

struct IncomingFileSpec {
  std::string target;  // of its GET
  std::string local;
  std::uint64_t size_bytes = 0;
  UnixTime modified{};
  std::string etag;
  std::uint64_t piece_bytes = 0;
  std::string state_folder;
  bool durable = true;  // flushed before it gets its name
};

// What the transfer around it lends to a file on its way in.
struct IncomingContext {
  Client& client;
  Meter& meter;
  const Crew& crew;
};

// A file that grows beside its place until all its pieces are there. Thread-safe: each piece is
// fetched by one thread, several at a time.
class IncomingFile {
 public:
  explicit IncomingFile(IncomingFileSpec spec);
  // Leaves a part behind only where a later attempt can go on with it.
  ~IncomingFile();
  IncomingFile(const IncomingFile&) = delete;
  IncomingFile& operator=(const IncomingFile&) = delete;
  IncomingFile(IncomingFile&&) = delete;
  IncomingFile& operator=(IncomingFile&&) = delete;

  const IncomingFileSpec& spec() const { return spec_; }
  std::size_t pieces() const { return pieces_.size(); }
  // Fetches a piece unless it is at hand; the last one gives the file its name and is told so by
  // true. After one piece has failed the others do nothing.
  Result<bool> fetch(const IncomingContext& context, std::size_t piece) EXCLUDES_LOCK(mutex_);
  // Reads the file at its place and compares it with what came.
  Status verify(const IncomingContext& context) EXCLUDES_LOCK(mutex_);
  std::uint64_t bytes_resumed() const { return bytes_resumed_; }

 private:
  Status open() EXCLUDES_LOCK(mutex_);
  Status open_locked() REQUIRES_LOCK(mutex_);
  Status restore() REQUIRES_LOCK(mutex_);
  Result<std::uint64_t> receive(const IncomingContext& context, std::size_t piece);
  Status receive_some(const IncomingContext& context, std::uint64_t end, std::uint64_t& at,
                      Xxh3& checksum);
  Status complete() REQUIRES_LOCK(mutex_);
  void remember() const REQUIRES_LOCK(mutex_);
  std::uint64_t begin_of(std::size_t piece) const { return piece * spec_.piece_bytes; }
  std::uint64_t end_of(std::size_t piece) const;

  const IncomingFileSpec spec_;
  const std::string part_;
  const TransferState state_;
  std::atomic<std::uint64_t> bytes_resumed_ = 0;
  Mutex mutex_;
  FileDescriptor file_;  // set once, under the mutex, before any piece is fetched
  bool opened_ GUARDED_BY(mutex_) = false;
  bool failed_ GUARDED_BY(mutex_) = false;
  std::size_t left_ GUARDED_BY(mutex_);
  std::vector<std::optional<std::uint64_t>> pieces_;  // checksums of those at hand
};

}  // namespace onggi::client
