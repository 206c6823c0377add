#pragma once

#include <string>

#include "base/clock.h"
#include "cli/output.h"
#include "client/transfer.h"

namespace onggi::cli {

// One line on a terminal that is redrawn, or a plain line now and then where nobody looks. One
// thread. finish() leaves the terminal clean.
class ProgressBar {
 public:
  ProgressBar(const Terminal& terminal, Clock& clock, bool wanted);

  void show(const client::Progress& progress);
  void finish();
  double seconds() const;

 private:
  void estimate(const client::Progress& progress);
  std::string line(const client::Progress& progress) const;

  const Terminal& terminal_;
  Clock& clock_;
  const bool wanted_;
  const SteadyTime begun_;
  SteadyTime last_shown_;
  SteadyTime last_measured_;
  std::uint64_t bytes_measured_ = 0;
  double rate_ = 0;  // bytes per second, smoothed
  bool drawn_ = false;
};

}  // namespace onggi::cli
