#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"

namespace onggi::io {

// fsync(2) for many callers at once: those who wait for the same file or directory share a call.
// Thread-safe.
class GroupSync {
 public:
  // Returns when a call that began after this one has ended, with its outcome.
  Status sync(int fd) EXCLUDES_LOCK(mutex_);

 private:
  using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device and inode
  struct Group {
    std::uint64_t begun = 0;  // calls, counted
    std::uint64_t ended = 0;
    std::uint64_t failed = 0;  // the last that failed, and its errno
    int error = 0;
    bool running = false;
    std::size_t callers = 0;
  };

  Mutex mutex_;
  CondVar ended_;
  std::map<FileId, Group> groups_ GUARDED_BY(mutex_);  // of files that somebody waits for
};

}  // namespace onggi::io
