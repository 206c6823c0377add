#include "backend/layers/fault.h"

#include <utility>

#include "base/mutex.h"

namespace onggi::backend {
namespace {

class Fault final : public Interceptor {
 public:
  Fault(const FaultOptions& options, Clock& clock)
      : options_(options), clock_(clock), state_(options.seed) {}

  Status run(Operation operation, const Attempt& attempt) override {
    if (options_.only && *options_.only != operation) return attempt();
    if (options_.delay.count() > 0) clock_.sleep_for(options_.delay);
    const auto injected = [&] { return fail(options_.error, "injected fault"); };
    if (draw() < options_.error_rate) return injected();
    auto status = attempt();
    if (status && draw() < options_.lost_reply_rate) return injected();
    return status;
  }

 private:
  // SplitMix64 (Steele, Lea, Flood 2014), as a number in [0, 1): the same on every machine.
  double draw() EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
  }

  const FaultOptions options_;
  Clock& clock_;
  Mutex mutex_;
  std::uint64_t state_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Backend> with_fault(std::unique_ptr<Backend> backend, const FaultOptions& options,
                                    Clock& clock) {
  return intercept(std::move(backend), std::make_unique<Fault>(options, clock));
}

}  // namespace onggi::backend
