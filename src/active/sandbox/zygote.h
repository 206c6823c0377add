#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace onggi::active {

// Called around each fork, for an interpreter that must be told.
struct ForkHooks {
  std::function<void()> before = [] {};
  std::function<void()> in_parent = [] {};
  std::function<void()> in_child = [] {};
};

struct ZygoteOptions {
  int control_fd = 3;              // to the broker
  std::string information = "{}";  // JSON object: package name to version
  std::vector<std::string> binds;  // paths that workers may read
  ForkHooks hooks;
  // Called in a child that has waited a while for its order, and must return soon.
  std::function<void()> rehearse = [] {};
};

// Serves the broker: forks children that build their walls and wait for an order. Returns in a
// worker that has got its order and stands behind its walls (descriptors: order.h), and in the
// zygote itself only with an error, cancelled when the broker has gone. The process must have one
// thread.
Status serve_zygote(const ZygoteOptions& options);

// Tells the broker why this zygote cannot serve.
void report_zygote_failure(int control_fd, const std::string& text);

}  // namespace onggi::active
