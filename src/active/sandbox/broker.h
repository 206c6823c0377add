#pragma once

#include <functional>

#include "base/result.h"

namespace onggi::active {

struct BrokerOptions {
  int daemon_fd = 3;  // seqpacket socket to the daemon
  // What a native worker does behind its walls; its result is the exit status.
  std::function<int()> native_worker;
};

// The broker's whole life: starts zygotes, hands orders to the children they forked ahead, holds
// workers to their CPU and wall time, reports their ends, removes their cgroups. Ends, and kills
// everything it started, when the daemon's socket closes. The process must have one thread; in a
// native worker this function calls native_worker and exits.
Status run_broker(const BrokerOptions& options);

}  // namespace onggi::active
