#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <generated/daemon/config.h>

#include "base/result.h"

namespace onggi::daemon {

std::string_view version();

// What start() would refuse in the settings, found without starting anything.
Status check_config(const Config& config);

// One running node: everything that serves, built in order and taken down backwards.
class Daemon {
 public:
  // Fails with a sentence that names the remedy: another daemon on the same data, a port in use, a
  // damaged catalog, a backend that does not exist.
  static Result<std::unique_ptr<Daemon>> start(const Config& config);
  virtual ~Daemon() = default;

  virtual std::uint16_t port() const = 0;
  // For people: where it listens and where the admin token lies.
  virtual std::string greeting() const = 0;

  // Takes nobody new, waits for requests and tasks in flight, then cuts the rest. True when all
  // finished in time.
  virtual bool stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace onggi::daemon
