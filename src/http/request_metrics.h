#pragma once

#include <map>
#include <string_view>
#include <tuple>

#include "base/mutex.h"
#include "http/router.h"
#include "metrics/metrics.h"

namespace onggi::http {

// The server's metrics, looked up once per label set. Thread-safe.
class RequestMetrics {
 public:
  explicit RequestMetrics(metrics::Registry& registry);

  // `route` is null for requests that met none.
  void answered(const Router::Route* route, Method method, int status, double seconds)
      EXCLUDES_LOCK(mutex_);
  void rejected(std::string_view reason);

  metrics::Gauge& connections;
  metrics::Counter& bytes_sent;
  metrics::Counter& bytes_received;

 private:
  struct Entry {
    metrics::Counter* count;
    metrics::Histogram* seconds;
  };

  metrics::Registry& registry_;
  Mutex mutex_;
  std::map<std::tuple<const Router::Route*, Method, int>, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace onggi::http
