#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "backend/backend.h"

namespace onggi::backend {

struct TimeoutOptions {
  std::chrono::milliseconds limit{30'000};
  // For what walks or removes a whole tree.
  std::chrono::milliseconds long_limit{3'600'000};
  std::size_t threads = 8;      // calls that may run, or hang, at once
  std::size_t queue_max = 256;  // calls that may wait for a thread; more are `unavailable`
};

// Runs each operation on the volume's own pool and gives up on it with deadline_exceeded, so that a
// dead mount holds this volume's threads and nobody else's: for backends whose capabilities say
// `remote`. A call that hangs keeps its thread until the system answers; then its result is
// dropped. flush and commit of staged files are not limited: like the writing before them, they
// take as long as the bytes need.
std::unique_ptr<Backend> with_timeout(std::unique_ptr<Backend> backend, std::string volume,
                                      const TimeoutOptions& options);

}  // namespace onggi::backend
