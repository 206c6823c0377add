#include "backend/layers/metrics_layer.h"

#include <utility>

#include "backend/layers/interceptor.h"

namespace onggi::backend {
namespace {

class Metrics final : public Interceptor {
 public:
  Metrics(std::string volume, metrics::Registry& metrics, const Clock& clock)
      : volume_(std::move(volume)), metrics_(metrics), clock_(clock) {}

  Status run(Operation operation, const Attempt& attempt) override {
    const SteadyTime began = clock_.steady_now();
    auto status = attempt();
    const std::chrono::duration<double> seconds = clock_.steady_now() - began;
    const std::string name(to_string(operation));
    const std::string outcome(status ? "ok" : to_string(status.error().code()));
    metrics_
        .counter("onggi_backend_operations_total", "Operations on volumes by outcome.",
                 {{"volume", volume_}, {"operation", name}, {"outcome", outcome}})
        .add();
    metrics_
        .histogram("onggi_backend_operation_seconds", "Time of operations on volumes.",
                   {{"volume", volume_}, {"operation", name}})
        .observe(seconds.count());
    return status;
  }

 private:
  const std::string volume_;
  metrics::Registry& metrics_;
  const Clock& clock_;
};

}  // namespace

std::unique_ptr<Backend> with_metrics(std::unique_ptr<Backend> backend, std::string volume,
                                      metrics::Registry& metrics, const Clock& clock) {
  return intercept(std::move(backend),
                   std::make_unique<Metrics>(std::move(volume), metrics, clock));
}

}  // namespace onggi::backend
