#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "metrics/metrics.h"

namespace onggi::backend {

struct LimitOptions {
  std::size_t in_flight_max = 64;
  std::size_t waiting_max = 256;
  std::chrono::milliseconds wait_max{10'000};
};

// Lets so many operations through at once; the others wait their turn, and are `unavailable` when
// too many wait already or for too long (counted in onggi_backend_refused_total). `metrics`
// outlives it.
std::unique_ptr<Backend> with_limit(std::unique_ptr<Backend> backend, std::string volume,
                                    const LimitOptions& options, metrics::Registry& metrics);

}  // namespace onggi::backend
