#include "base/clock.h"

#include <thread>

namespace onggi {

UnixTime SystemClock::now() const {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

SteadyTime SystemClock::steady_now() const {
  return std::chrono::steady_clock::now();
}

void SystemClock::sleep_for(Duration duration) {
  std::this_thread::sleep_for(duration);
}

}  // namespace onggi
