#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/rel_path.h"
#include "base/mutex.h"
#include "base/result.h"

namespace onggi::vfolder {

struct FileWritersOptions {
  std::size_t threads = 2;
  std::size_t queued_bytes_max = std::size_t{16} << 20;
};

// Writes many small files of one vfolder on a few threads: the kernel's work for a small file is
// long compared to its bytes. Files are whole when seen but not durable: call Folder::sync() after
// drain(). Files of one path are written in the order in which they came. Used by one thread.
class FileWriters {
 public:
  explicit FileWriters(backend::Folder& folder, FileWritersOptions options = {});
  ~FileWriters();  // drops what is queued
  FileWriters(const FileWriters&) = delete;
  FileWriters& operator=(const FileWriters&) = delete;
  FileWriters(FileWriters&&) = delete;
  FileWriters& operator=(FileWriters&&) = delete;

  // Queues a file, waiting while too much is queued. The error of an earlier file, if there was
  // one.
  Status write(backend::RelPath path, std::vector<std::byte> content) EXCLUDES_LOCK(mutex_);
  // Waits until all are written; the first error.
  Status drain() EXCLUDES_LOCK(mutex_);

 private:
  struct Job {
    backend::RelPath path;
    std::vector<std::byte> content;
  };

  void run(std::size_t thread) EXCLUDES_LOCK(mutex_);
  Status write_now(const Job& job);
  Status first_error() const REQUIRES_LOCK(mutex_);

  backend::Folder& folder_;
  const FileWritersOptions options_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::deque<Job>> queues_ GUARDED_BY(mutex_);  // one for each thread
  std::size_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  std::size_t unfinished_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<Error> errors_ GUARDED_BY(mutex_);  // at most one
  std::vector<std::jthread> threads_;             // started by the first write
};

}  // namespace onggi::vfolder
