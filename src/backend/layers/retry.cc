#include "backend/layers/retry.h"

#include <array>
#include <utility>

#include "backend/layers/interceptor.h"
#include "base/random.h"

namespace onggi::backend {
namespace {

// So that many who failed together do not come back together.
std::chrono::milliseconds jittered(std::chrono::milliseconds delay) {
  std::array<std::byte, 1> byte{};
  fill_random(byte);
  return delay - delay * std::to_integer<int>(byte[0]) / 512;
}

class Retry final : public Interceptor {
 public:
  Retry(const RetryOptions& options, Clock& clock) : options_(options), clock_(clock) {}

  Status run(Operation /*operation*/, const Attempt& attempt) override {
    const SteadyTime deadline = clock_.steady_now() + options_.total_max;
    std::chrono::milliseconds delay = options_.first_delay;
    for (int count = 1;; ++count, delay *= 2) {
      auto status = attempt();
      if (status || !status.error().retryable() || count >= options_.attempts_max) return status;
      const auto pause = jittered(delay);
      if (clock_.steady_now() + pause > deadline) return status;
      clock_.sleep_for(pause);
    }
  }

 private:
  const RetryOptions options_;
  Clock& clock_;
};

}  // namespace

std::unique_ptr<Backend> with_retry(std::unique_ptr<Backend> backend, const RetryOptions& options,
                                    Clock& clock) {
  return intercept(std::move(backend), std::make_unique<Retry>(options, clock));
}

}  // namespace onggi::backend
