#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Clang's thread-safety analysis checks these at compile time; other compilers see nothing.
#if defined(__clang__)
#define ONGGI_ANNOTATE_(x) __attribute__((x))
#else
#define ONGGI_ANNOTATE_(x)
#endif
#define GUARDED_BY(mutex) ONGGI_ANNOTATE_(guarded_by(mutex))
#define REQUIRES_LOCK(mutex) ONGGI_ANNOTATE_(requires_capability(mutex))
#define EXCLUDES_LOCK(mutex) ONGGI_ANNOTATE_(locks_excluded(mutex))
#define NO_LOCK_ANALYSIS ONGGI_ANNOTATE_(no_thread_safety_analysis)

namespace onggi {

// std::mutex that the analysis can see.
class ONGGI_ANNOTATE_(capability("mutex")) Mutex {
 public:
  void lock() ONGGI_ANNOTATE_(acquire_capability()) { mutex_.lock(); }
  void unlock() ONGGI_ANNOTATE_(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ONGGI_ANNOTATE_(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ONGGI_ANNOTATE_(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }

  ~MutexLock() ONGGI_ANNOTATE_(release_capability()) { mutex_.unlock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits under a Mutex that the caller holds. Spurious wake-ups are possible: wait in a loop.
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES_LOCK(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();  // the caller's again
  }
  // False when `timeout` passed first.
  bool wait_for(Mutex& mutex, std::chrono::milliseconds timeout) REQUIRES_LOCK(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace onggi
