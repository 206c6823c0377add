#include "cli/progress_bar.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

namespace onggi::cli {

namespace {

constexpr Duration kPlainInterval = std::chrono::seconds(10);
constexpr Duration kMeasureInterval = std::chrono::milliseconds(500);
constexpr std::size_t kBarColumns = 24;
constexpr double kSmoothing = 0.3;

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

ProgressBar::ProgressBar(const Terminal& terminal, Clock& clock, bool wanted)
    : terminal_(terminal),
      clock_(clock),
      wanted_(wanted),
      begun_(clock.steady_now()),
      last_shown_(begun_),
      last_measured_(begun_) {}

double ProgressBar::seconds() const {
  return in_seconds(clock_.steady_now() - begun_);
}

void ProgressBar::estimate(const client::Progress& progress) {
  const Duration passed = clock_.steady_now() - last_measured_;
  if (passed < kMeasureInterval) return;
  const auto moved =
      static_cast<double>(progress.bytes_done - std::min(progress.bytes_done, bytes_measured_));
  const double now = moved / in_seconds(passed);
  rate_ = rate_ > 0 ? kSmoothing * now + (1 - kSmoothing) * rate_ : now;
  bytes_measured_ = progress.bytes_done;
  last_measured_ = clock_.steady_now();
}

std::string ProgressBar::line(const client::Progress& progress) const {
  const double share = progress.bytes_total == 0
                           ? 0
                           : std::min(1.0, static_cast<double>(progress.bytes_done) /
                                               static_cast<double>(progress.bytes_total));
  const auto filled = static_cast<std::size_t>(share * kBarColumns);
  std::string bar;
  for (std::size_t i = 0; i < kBarColumns; ++i) bar += i < filled ? "━" : "─";
  std::string text = fmt::format("{:3.0f}% {} {} of {}", share * 100, bar,
                                 human_size(progress.bytes_done), human_size(progress.bytes_total));
  if (progress.files_total > 1) {
    text += fmt::format("  {}/{} files", progress.files_done, progress.files_total);
  }
  if (rate_ > 0) {
    const auto left = static_cast<double>(progress.bytes_total -
                                          std::min(progress.bytes_total, progress.bytes_done));
    text += fmt::format("  {}/s  {} left", human_size(static_cast<std::uint64_t>(rate_)),
                        human_duration(left / rate_));
  }
  return text;
}

void ProgressBar::show(const client::Progress& progress) {
  if (!wanted_) return;
  estimate(progress);
  if (terminal_.is_terminal) {
    std::string text = line(progress);
    // Three bytes a bar character: cut by columns, not by bytes.
    const std::size_t columns = text.size() - 2 * kBarColumns;
    if (columns + 2 < terminal_.columns) {
      const std::size_t room = terminal_.columns - columns - 2;
      std::string name = printable(progress.current);
      if (name.size() > room) name = room > 8 ? "…" + name.substr(name.size() - room + 1) : "";
      text += "  " + terminal_.paint(name, Tone::faint);
    } else {
      text.resize(std::min(text.size(), terminal_.columns - 1));
    }
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
    drawn_ = true;
    return;
  }
  if (clock_.steady_now() - last_shown_ < kPlainInterval) return;
  last_shown_ = clock_.steady_now();
  fmt::print(stderr, "{} of {}, {} of {} files, {}/s\n", human_size(progress.bytes_done),
             human_size(progress.bytes_total), progress.files_done, progress.files_total,
             human_size(static_cast<std::uint64_t>(rate_)));
}

void ProgressBar::finish() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace onggi::cli
