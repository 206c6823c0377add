#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/result.h"

namespace onggi::http {

// Told, on the loop's thread, that its descriptor is ready.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void on_ready(std::uint32_t events) = 0;  // EPOLLIN, EPOLLOUT, EPOLLRDHUP, …
};

// One thread that waits for many descriptors. Every wait is one-shot: a connection that a pool
// thread works on wakes nobody, however many bytes arrive, and arming it again is one system call
// from that thread, with no detour through the loop. (Asio keeps descriptors registered
// edge-triggered, so that the loop wakes for every segment of an upload that it does not read.)
class EventLoop {
 public:
  static Result<std::unique_ptr<EventLoop>> make();

  // Begins to watch `fd` for `events`, once. Any thread. `watcher` stays valid until the task
  // posted after remove() has run.
  Status add(int fd, Watcher& watcher, std::uint32_t events);
  // Waits for `events` again, once. Any thread.
  void arm(int fd, Watcher& watcher, std::uint32_t events) EXCLUDES_LOCK(arming_);
  // No arm() for `fd` is under way when it returns: the descriptor may then be closed.
  void remove(int fd) EXCLUDES_LOCK(arming_);

  // Runs `task` on the loop's thread, after the events at hand. Any thread.
  void post(std::function<void()> task) EXCLUDES_LOCK(mutex_);

  // Runs until stop(). `tick` is called about every `interval` as long as it returns true; after
  // that only once events have come in.
  void run(std::chrono::milliseconds interval, const std::function<bool()>& tick);
  void stop();

 private:
  EventLoop() = default;
  void run_posted();

  FileDescriptor epoll_;
  FileDescriptor wake_;
  std::atomic<bool> stopping_{false};
  // Held around the system call alone, which the kernel serialises anyway: a connection that was
  // just armed can become ready, and end, before the thread that armed it is back from the call.
  Mutex arming_;
  Mutex mutex_;
  std::vector<std::function<void()>> posted_ GUARDED_BY(mutex_);
};

}  // namespace onggi::http
