#include "backend/layers/limit.h"

#include <utility>

#include <fmt/format.h>

#include "backend/layers/interceptor.h"
#include "base/mutex.h"

namespace onggi::backend {
namespace {

class Limit final : public Interceptor {
 public:
  Limit(std::string volume, const LimitOptions& options, metrics::Registry& metrics)
      : volume_(std::move(volume)),
        options_(options),
        refused_(metrics.counter("onggi_backend_refused_total",
                                 "Operations refused because too many wait for the volume.",
                                 {{"volume", volume_}})) {}

  Status run(Operation /*operation*/, const Attempt& attempt) override {
    if (!enter()) {
      refused_.add();
      return fail(ErrorCode::unavailable, fmt::format("volume '{}' is busy", volume_));
    }
    auto status = attempt();
    const MutexLock lock(mutex_);
    --in_flight_;
    left_.notify_one();
    return status;
  }

 private:
  bool enter() EXCLUDES_LOCK(mutex_) {
    const auto deadline = std::chrono::steady_clock::now() + options_.wait_max;
    const MutexLock lock(mutex_);
    if (in_flight_ >= options_.in_flight_max && waiting_ >= options_.waiting_max) return false;
    ++waiting_;
    while (in_flight_ >= options_.in_flight_max) {
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      if (wait.count() <= 0) break;
      left_.wait_for(mutex_, wait);
    }
    --waiting_;
    if (in_flight_ >= options_.in_flight_max) return false;
    ++in_flight_;
    return true;
  }

  const std::string volume_;
  const LimitOptions options_;
  metrics::Counter& refused_;
  Mutex mutex_;
  CondVar left_;
  std::size_t in_flight_ GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Backend> with_limit(std::unique_ptr<Backend> backend, std::string volume,
                                    const LimitOptions& options, metrics::Registry& metrics) {
  return intercept(std::move(backend),
                   std::make_unique<Limit>(std::move(volume), options, metrics));
}

}  // namespace onggi::backend
