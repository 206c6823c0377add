#pragma once

namespace onggi::active {

// The life of a worker of the profile "native", behind its walls (sandbox/order.h): answers
// commands by our own code. Entries: `echo` (a batch with the command's body) and `tree_digest`
// (command {"path": …}; an end frame {"files", "size_bytes", "xxh3"} over every file below it).
// Returns the exit status.
int run_native_worker();

}  // namespace onggi::active
