#include "base/thread_pool.h"

#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>

namespace onggi {
namespace {

constexpr int kLooks = 50;

}  // namespace

ThreadPool::ThreadPool(ThreadPoolOptions options) : options_(std::move(options)) {}

ThreadPool::~ThreadPool() {
  close();
}

Status ThreadPool::submit(std::function<void()> job) {
  {
    const MutexLock lock(mutex_);
    if (closing_) return fail(ErrorCode::resource_exhausted, options_.name + " is closing");
    if (queue_.size() >= options_.queue_max) {
      return fail(ErrorCode::resource_exhausted, options_.name + "'s queue is full");
    }
    if (queue_.size() >= idle_ && threads_.size() < options_.threads) {
      RETURN_IF_ERROR(add_thread());
    }
    queue_.push_back(std::move(job));
    if (looking_) return {};  // that thread finds it
  }
  wake_.notify_one();  // after unlocking, or the thread would wake only to wait for the lock
  return {};
}

Status ThreadPool::add_thread() {
  const std::string name = fmt::format("{}-{}", options_.name, threads_.size()).substr(0, 15);
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error& error) {
    if (!threads_.empty()) return {};  // the others do it
    return fail(ErrorCode::resource_exhausted,
                fmt::format("{} cannot start a thread: {}", options_.name, error.what()));
  }
  ::pthread_setname_np(threads_.back().native_handle(), name.c_str());
  return {};
}

void ThreadPool::close() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    threads.swap(threads_);
    wake_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

std::size_t ThreadPool::queued() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

std::size_t ThreadPool::running() const {
  const MutexLock lock(mutex_);
  return running_;
}

void ThreadPool::wait_for_job() {
  while (queue_.empty() && !closing_) {
    ++idle_;
    if (!looking_) look_around();
    if (queue_.empty() && !closing_) wake_.wait(mutex_);
    --idle_;
  }
}

// Short jobs follow each other closely, and to fall asleep and be woken costs more than many of
// them: one idle thread looks a few times more, and lets others run in between.
void ThreadPool::look_around() {
  looking_ = true;
  for (int i = 0; i < kLooks && queue_.empty(); ++i) {
    mutex_.unlock();
    ::sched_yield();
    mutex_.lock();
  }
  looking_ = false;
}

void ThreadPool::run() {
  mutex_.lock();
  while (true) {
    wait_for_job();
    if (queue_.empty()) break;
    std::function<void()> job = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    const bool more = !queue_.empty() && idle_ > 0;
    mutex_.unlock();
    if (more) wake_.notify_one();  // for what came while this thread was looking
    job();
    job = nullptr;  // destroy what it captured before taking the lock
    mutex_.lock();
    --running_;
  }
  mutex_.unlock();
}

}  // namespace onggi
