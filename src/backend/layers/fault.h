#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "backend/backend.h"
#include "backend/layers/interceptor.h"
#include "base/clock.h"

namespace onggi::backend {

struct FaultOptions {
  std::uint64_t seed = 1;
  double error_rate = 0;  // of operations that fail before they begin
  ErrorCode error = ErrorCode::unavailable;
  double lost_reply_rate = 0;  // of operations that are done and yet fail
  std::chrono::milliseconds delay{0};
  std::optional<Operation> only;  // none: all operations
};

// Makes operations fail or take long, the same ones for the same seed. For tests. `clock` outlives
// it.
std::unique_ptr<Backend> with_fault(std::unique_ptr<Backend> backend, const FaultOptions& options,
                                    Clock& clock);

}  // namespace onggi::backend
