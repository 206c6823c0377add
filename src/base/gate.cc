#include "base/gate.h"

#include "base/check.h"

namespace onggi {

bool Gate::enter() {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  ++inside_;
  return true;
}

void Gate::leave() {
  const MutexLock lock(mutex_);
  CHECK(inside_ > 0);
  if (--inside_ == 0) empty_.notify_all();
}

void Gate::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

bool Gate::wait_empty(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(mutex_);
  while (inside_ > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    empty_.wait_for(mutex_, left);
  }
  return true;
}

std::size_t Gate::inside() const {
  const MutexLock lock(mutex_);
  return inside_;
}

}  // namespace onggi
