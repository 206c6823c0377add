#pragma once

#include <chrono>
#include <memory>

#include "backend/backend.h"
#include "base/clock.h"

namespace onggi::backend {

struct RetryOptions {
  int attempts_max = 3;
  std::chrono::milliseconds first_delay{
      50};  // doubled each time, each shortened at random by up to half
  std::chrono::milliseconds total_max{5'000};  // no new attempt starts after this
};

// Tries again what failed as `unavailable`, and nothing else. `clock` outlives the backend.
std::unique_ptr<Backend> with_retry(std::unique_ptr<Backend> backend, const RetryOptions& options,
                                    Clock& clock);

}  // namespace onggi::backend
