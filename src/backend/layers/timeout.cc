#include "backend/layers/timeout.h"

#include <future>
#include <utility>

#include <fmt/format.h>

#include "backend/layers/interceptor.h"
#include "base/thread_pool.h"

namespace onggi::backend {
namespace {

bool takes_long(Operation operation) {
  return operation == Operation::remove_folder || operation == Operation::list_folders ||
         operation == Operation::recover || operation == Operation::remove ||
         operation == Operation::usage || operation == Operation::sync ||
         operation == Operation::collect_staging;
}

// Those whose file is the caller's, who writes its bytes without a limit, too.
bool stays_with_caller(Operation operation) {
  return operation == Operation::flush || operation == Operation::commit;
}

class Timeout final : public Interceptor {
 public:
  Timeout(std::string volume, const TimeoutOptions& options)
      : volume_(std::move(volume)),
        options_(options),
        pool_({.name = "vol-" + volume_,
               .threads = options.threads,
               .queue_max = options.queue_max}) {}

  Status run(Operation operation, const Attempt& attempt) override {
    if (stays_with_caller(operation)) return attempt();
    // Shared with the pool: whoever is last lets go of it.
    auto done = std::make_shared<std::promise<Status>>();
    auto future = done->get_future();
    auto accepted = pool_.submit([done, attempt] { done->set_value(attempt()); });
    if (!accepted) {
      return fail(ErrorCode::unavailable,
                  fmt::format("volume '{}' has too many requests waiting", volume_));
    }
    const auto limit = takes_long(operation) ? options_.long_limit : options_.limit;
    if (future.wait_for(limit) == std::future_status::ready) return future.get();
    return fail(ErrorCode::deadline_exceeded,
                fmt::format("volume '{}' did not answer {} within {} ms", volume_,
                            to_string(operation), limit.count()));
  }

 private:
  const std::string volume_;
  const TimeoutOptions options_;
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Backend> with_timeout(std::unique_ptr<Backend> backend, std::string volume,
                                      const TimeoutOptions& options) {
  return intercept(std::move(backend), std::make_unique<Timeout>(std::move(volume), options));
}

}  // namespace onggi::backend
