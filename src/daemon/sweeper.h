#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace onggi::daemon {

// Calls `sweep` every `period` on a thread of its own until stopped.
class Sweeper {
 public:
  Sweeper(std::chrono::milliseconds period, std::function<void()> sweep);
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;
  Sweeper(Sweeper&&) = delete;
  Sweeper& operator=(Sweeper&&) = delete;

  // Waits for a sweep in progress. Idempotent.
  void stop() EXCLUDES_LOCK(mutex_);

 private:
  void run() EXCLUDES_LOCK(mutex_);

  const std::chrono::milliseconds period_;
  const std::function<void()> sweep_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace onggi::daemon
