#include "http/request_metrics.h"

#include <string>

namespace onggi::http {

RequestMetrics::RequestMetrics(metrics::Registry& registry)
    : connections(registry.gauge("onggi_http_connections", "Open HTTP connections.")),
      bytes_sent(registry.counter("onggi_http_bytes_sent_total", "Bytes of responses sent.")),
      bytes_received(
          registry.counter("onggi_http_bytes_received_total", "Bytes of requests received.")),
      registry_(registry) {}

void RequestMetrics::answered(const Router::Route* route, Method method, int status,
                              double seconds) {
  Entry entry{};
  {
    const MutexLock lock(mutex_);
    Entry& cached = entries_[{route, method, status}];
    if (cached.count == nullptr) {
      const std::string pattern = route == nullptr ? "none" : route->pattern;
      cached.count = &registry_.counter("onggi_http_requests_total", "HTTP requests answered.",
                                        {{"route", pattern},
                                         {"method", std::string(to_string(method))},
                                         {"code", std::to_string(status)}});
      cached.seconds = &registry_.histogram(
          "onggi_http_request_seconds", "Time from a request's first byte to its response's last.",
          {{"route", pattern}});
    }
    entry = cached;
  }
  entry.count->add();
  entry.seconds->observe(seconds);
}

void RequestMetrics::rejected(std::string_view reason) {
  registry_
      .counter("onggi_http_rejected_total",
               "Requests and connections refused by the server itself.",
               {{"reason", std::string(reason)}})
      .add();
}

}  // namespace onggi::http
