#include "http/event_loop.h"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

namespace onggi::http {
namespace {

constexpr int kEventsMax = 256;

epoll_event make_event(Watcher* watcher, std::uint32_t events) {
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.ptr = watcher;
  return event;
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::make() {
  std::unique_ptr<EventLoop> loop(new EventLoop());
  loop->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_) return fail_errno("epoll_create1");
  loop->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_) return fail_errno("eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the loop itself
  if (::epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wake_.get(), &event) != 0) {
    return fail_errno("epoll_ctl");
  }
  return loop;
}

Status EventLoop::add(int fd, Watcher& watcher, std::uint32_t events) {
  epoll_event event = make_event(&watcher, events);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("epoll_ctl");
  return {};
}

void EventLoop::arm(int fd, Watcher& watcher, std::uint32_t events) {
  epoll_event event = make_event(&watcher, events);
  const MutexLock lock(arming_);
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void EventLoop::remove(int fd) {
  const MutexLock lock(arming_);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::post(std::function<void()> task) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (first) ::eventfd_write(wake_.get(), 1);
}

void EventLoop::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
}

void EventLoop::run(std::chrono::milliseconds interval, const std::function<bool()>& tick) {
  std::array<epoll_event, kEventsMax> events{};
  bool ticking = false;
  auto next_tick = std::chrono::steady_clock::now();
  while (!stopping_) {
    const int timeout = ticking ? static_cast<int>(interval.count()) : -1;
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, timeout);
    CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.ptr == nullptr) {
        eventfd_t ignored = 0;
        ::eventfd_read(wake_.get(), &ignored);
      } else {
        static_cast<Watcher*>(event.data.ptr)->on_ready(event.events);
      }
    }
    run_posted();
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_tick) {
      ticking = tick();
      next_tick = now + interval;
    } else {
      ticking = true;
    }
  }
  run_posted();
}

void EventLoop::stop() {
  stopping_ = true;
  ::eventfd_write(wake_.get(), 1);
}

}  // namespace onggi::http
