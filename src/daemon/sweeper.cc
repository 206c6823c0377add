#include "daemon/sweeper.h"

#include <utility>

#include <pthread.h>

namespace onggi::daemon {

Sweeper::Sweeper(std::chrono::milliseconds period, std::function<void()> sweep)
    : period_(period), sweep_(std::move(sweep)), thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "sweeper");
}

Sweeper::~Sweeper() {
  stop();
}

void Sweeper::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Sweeper::run() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      // A wake-up too early only sweeps too early.
      if (!stopping_) wake_.wait_for(mutex_, period_);
      if (stopping_) return;
    }
    sweep_();
  }
}

}  // namespace onggi::daemon
