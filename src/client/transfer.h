#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "client/client.h"

namespace onggi::client {

struct Progress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t files_done = 0;
  std::uint64_t files_total = 0;
  std::string current;  // one of the files under way
};

struct TransferOptions {
  std::size_t jobs = 4;           // requests at a time
  bool verify = false;            // read everything again at the end and compare checksums
  bool force = false;             // also what is there already
  bool durable = true;            // flushed to the disk at the far end before it counts as done
  std::string state_folder = {};  // where unfinished transfers are remembered; empty: nowhere
  // Both are called on the calling thread only, about ten times a second.
  std::function<void(const Progress&)> progress = {};
  CancelCheck cancelled = {};
};

struct TransferFailure {
  std::string path;
  Error error;
};

struct TransferSummary {
  std::uint64_t files = 0;  // transferred
  std::uint64_t size_bytes = 0;
  std::uint64_t files_skipped = 0;  // were there already
  std::uint64_t bytes_resumed = 0;  // were there already, of files that were not complete
  std::vector<std::string> warnings = {};
  std::vector<TransferFailure> failures = {};  // the rest went through
};

// Counts of a running transfer. Thread-safe.
class Meter {
 public:
  void expect(std::uint64_t files, std::uint64_t bytes) EXCLUDES_LOCK(mutex_);
  void begin(const std::string& path) EXCLUDES_LOCK(mutex_);
  // Negative when a piece has to be sent again.
  void add_bytes(std::int64_t bytes) { bytes_done_ += bytes; }
  void add_files(std::uint64_t files) { files_done_ += files; }
  Progress progress() const EXCLUDES_LOCK(mutex_);

 private:
  std::atomic<std::int64_t> bytes_done_ = 0;
  std::atomic<std::uint64_t> files_done_ = 0;
  mutable Mutex mutex_;
  std::uint64_t bytes_total_ GUARDED_BY(mutex_) = 0;
  std::uint64_t files_total_ GUARDED_BY(mutex_) = 0;
  std::string current_ GUARDED_BY(mutex_);
};

// Runs a list of items on a few threads while the calling thread reports and listens for ctrl-C.
class Crew {
 public:
  Crew(const TransferOptions& options, const Meter& meter) : options_(options), meter_(meter) {}

  // Calls work(i) for each i below `count`. An error of work() stops the crew and is returned;
  // cancelled when the caller asked. Work that blocks looks at stopping().
  Status run(std::size_t count, const std::function<Status(std::size_t)>& work);
  bool stopping() const { return stopping_; }

 private:
  void watch(std::size_t workers);
  void work_through(std::size_t count, const std::function<Status(std::size_t)>& work);

  const TransferOptions& options_;
  const Meter& meter_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> next_ = 0;
  Mutex mutex_;
  CondVar done_;
  std::size_t finished_ GUARDED_BY(mutex_) = 0;
  std::optional<Error> error_ GUARDED_BY(mutex_);
};

// True for errors that every other file of the transfer would meet too.
bool ends_transfer(ErrorCode code);

// What is remembered of a transfer that was cut short: a small JSON file. One thread at a time.
class TransferState {
 public:
  // `identity` says which transfer: ends, paths. Nothing is kept when `folder` is empty.
  TransferState(const std::string& folder, std::string_view identity);

  boost::json::object load() const;  // empty when there is none
  void save(const boost::json::object& state) const;
  void forget() const;

 private:
  std::string path_;
};

}  // namespace onggi::client
