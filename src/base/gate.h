#pragma once

#include <chrono>
#include <cstddef>

#include "base/mutex.h"

namespace onggi {

// Counts what is in flight, so that shutting down can refuse newcomers and wait for the rest
// (Seastar's gate). Thread-safe.
class Gate {
 public:
  // True when let in; the caller then calls leave() exactly once. False once closed.
  bool enter() EXCLUDES_LOCK(mutex_);
  void leave() EXCLUDES_LOCK(mutex_);
  // Lets nobody in any more.
  void close() EXCLUDES_LOCK(mutex_);
  // True once nobody is inside; false when `timeout` passed first.
  bool wait_empty(std::chrono::milliseconds timeout) EXCLUDES_LOCK(mutex_);
  std::size_t inside() const EXCLUDES_LOCK(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar empty_;
  std::size_t inside_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace onggi
