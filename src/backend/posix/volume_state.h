#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "backend/posix/beneath.h"
#include "base/mutex.h"
#include "io/group_sync.h"

namespace onggi::backend {

// One mutex for a name in a directory, whichever way the directory was reached. Names share a fixed
// number of mutexes. Thread-safe.
class NameLocks {
 public:
  Mutex& of(const Place& place);

 private:
  std::array<Mutex, 64> mutexes_;
};

// Holds the locks of one or two names, so that what was found there is still true when it is
// replaced.
class NameLock {
 public:
  NameLock(NameLocks& locks, const Place& place) NO_LOCK_ANALYSIS;
  NameLock(NameLocks& locks, const Place& one, const Place& other) NO_LOCK_ANALYSIS;
  ~NameLock() NO_LOCK_ANALYSIS;
  NameLock(const NameLock&) = delete;
  NameLock& operator=(const NameLock&) = delete;
  NameLock(NameLock&&) = delete;
  NameLock& operator=(NameLock&&) = delete;

 private:
  Mutex* first_;
  Mutex* second_ = nullptr;  // null when both names have the same mutex
};

// What the open vfolders of a volume and their staged files share.
struct VolumeState {
  NameLocks locks;
  io::GroupSync directories;
};

// Shared, since a vfolder that somebody still uses may outlive its backend.
using SharedVolumeState = std::shared_ptr<VolumeState>;

}  // namespace onggi::backend
