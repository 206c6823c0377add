#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace onggi {

struct ThreadPoolOptions {
  std::string name;              // threads are called name-0, name-1, … (15 characters at most)
  std::size_t threads = 4;       // the most; a thread starts when first needed
  std::size_t queue_max = 1024;  // jobs that may wait
};

// A fixed number of threads and a bounded queue. Thread-safe. The destructor finishes what was
// accepted.
class ThreadPool {
 public:
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Runs `job` on some thread. resource_exhausted when the queue is full or the pool is closing.
  Status submit(std::function<void()> job) EXCLUDES_LOCK(mutex_);

  // Refuses new jobs, finishes accepted ones, joins. Idempotent.
  void close() EXCLUDES_LOCK(mutex_);

  std::size_t queued() const EXCLUDES_LOCK(mutex_);
  std::size_t running() const EXCLUDES_LOCK(mutex_);

 private:
  Status add_thread() REQUIRES_LOCK(mutex_);
  void run();
  void wait_for_job() REQUIRES_LOCK(mutex_);
  void look_around() REQUIRES_LOCK(mutex_);

  const ThreadPoolOptions options_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  std::size_t idle_ GUARDED_BY(mutex_) = 0;
  std::size_t running_ GUARDED_BY(mutex_) = 0;
  bool looking_ GUARDED_BY(mutex_) = false;  // some thread is in look_around()
  bool closing_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace onggi
