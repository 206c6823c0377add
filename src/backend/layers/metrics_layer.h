#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/clock.h"
#include "metrics/metrics.h"

namespace onggi::backend {

// Counts and times operations: onggi_backend_operations_total{volume,operation,outcome} and
// onggi_backend_operation_seconds{volume,operation}. `metrics` and `clock` outlive the backend.
std::unique_ptr<Backend> with_metrics(std::unique_ptr<Backend> backend, std::string volume,
                                      metrics::Registry& metrics, const Clock& clock);

}  // namespace onggi::backend
