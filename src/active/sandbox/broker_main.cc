#include <cstdio>

#include <unistd.h>

#include "active/native_worker.h"
#include "active/sandbox/broker.h"

// Started by the daemon, never by hand: descriptor 3 is the socket to it.
int main() {
  const auto status = onggi::active::run_broker(
      {.native_worker = [] { return onggi::active::run_native_worker(); }});
  if (status) return 0;
  static_cast<void>(std::fprintf(stderr, "onggi-broker: %s\n", status.error().message().c_str()));
  return 1;
}
