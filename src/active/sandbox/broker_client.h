#pragma once

#include <functional>
#include <memory>
#include <string>

#include "active/sandbox/abilities.h"
#include "active/sandbox/protocol.h"
#include "base/result.h"

namespace onggi::active {

// What the broker reports; called on the client's own thread, one call at a time.
struct BrokerEvents {
  std::function<void(const SandboxAbilities&)> hello;
  std::function<void(const std::string& profile, const std::string& information)> profile_ready;
  std::function<void(const std::string& profile, const std::string& text)> profile_failed;
  std::function<void(const WorkerExit&)> exited;
  // The broker died, and with it every zygote and worker. Another is being started.
  std::function<void()> lost;
};

// Runs the broker program and talks to it. Starts it again when it dies. Thread-safe. The
// destructor ends the broker and waits for it.
class BrokerClient {
 public:
  // Returns once the broker has said hello, or could not.
  static Result<std::unique_ptr<BrokerClient>> start(std::string program, BrokerEvents events);
  virtual ~BrokerClient() = default;

  // unavailable while the broker is being started again.
  virtual Status start_profile(const StartProfile& profile) = 0;
  virtual Status spawn(const WorkerOrder& order, const WorkerDescriptors& descriptors) = 0;
  virtual Status kill(std::uint64_t worker) = 0;
};

}  // namespace onggi::active
