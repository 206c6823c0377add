#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace onggi {

using Duration = std::chrono::nanoseconds;
// Wall-clock time since the Unix epoch, as stored and as shown.
using UnixTime = std::chrono::sys_time<std::chrono::milliseconds>;
// Monotonic time, for deadlines and durations only.
using SteadyTime = std::chrono::steady_clock::time_point;

// The only source of time: passed in, so that tests move it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual UnixTime now() const = 0;
  virtual SteadyTime steady_now() const = 0;
  virtual void sleep_for(Duration duration) = 0;
};

// The machine's clock.
class SystemClock final : public Clock {
 public:
  UnixTime now() const override;
  SteadyTime steady_now() const override;
  void sleep_for(Duration duration) override;
};

// A clock that stands still until told; sleeping moves it.
class FakeClock final : public Clock {
 public:
  UnixTime now() const override {
    return UnixTime(std::chrono::duration_cast<std::chrono::milliseconds>(elapsed()));
  }
  SteadyTime steady_now() const override { return SteadyTime(elapsed()); }
  void sleep_for(Duration duration) override { advance(duration); }
  void advance(Duration duration) { elapsed_ += duration.count(); }

 private:
  Duration elapsed() const { return Duration(elapsed_.load()); }

  std::atomic<Duration::rep> elapsed_ = 0;
};

}  // namespace onggi
