#include "metrics/metrics.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/check.h"

namespace onggi::metrics {
namespace {

// The text format escapes these three in label values and two of them in help lines.
std::string escape(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

std::string label_text(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    fmt::format_to(std::back_inserter(out), "{}{}=\"{}\"", out.empty() ? "" : ",", name,
                   escape(value, true));
  }
  return out;
}

std::string braces(const std::string& labels, const std::string& more = {}) {
  if (labels.empty() && more.empty()) return {};
  return fmt::format("{{{}{}{}}}", labels, labels.empty() || more.empty() ? "" : ",", more);
}

void print_histogram(std::string& out, const std::string& name, const std::string& labels,
                     const Histogram& histogram) {
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) {
    cumulative += histogram.bucket(i);
    const std::string bound =
        i < histogram.bounds().size() ? fmt::format("{}", histogram.bounds()[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{} {}\n", name,
                   braces(labels, fmt::format("le=\"{}\"", bound)), cumulative);
  }
  fmt::format_to(std::back_inserter(out), "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name,
                 braces(labels), histogram.sum(), cumulative);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)) {
  CHECK(std::ranges::is_sorted(bounds_));
  for (std::size_t i = 0; i <= bounds_.size(); ++i) buckets_.emplace_back(0);
}

void Histogram::observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  const auto i = static_cast<std::size_t>(std::distance(bounds_.begin(), bound));
  buckets_[i].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::vector<double> duration_bounds() {
  return {0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
          0.1,    0.25,   0.5,   1,      2.5,   5,    10,    60};
}

// All metrics of one name, by label text. Node-based maps keep references valid.
struct Registry::Family {
  std::string help;
  std::string kind;
  std::map<std::string, Counter> counters;
  std::map<std::string, Gauge> gauges;
  std::map<std::string, Histogram> histograms;
  std::function<double()> read;
};

Registry::Registry() = default;
Registry::~Registry() = default;

Registry::Family& Registry::family(std::string_view name, std::string_view help,
                                   std::string_view kind) {
  auto found = families_.find(name);
  if (found == families_.end()) {
    auto made = std::make_unique<Family>();
    made->help = help;
    made->kind = kind;
    found = families_.emplace(std::string(name), std::move(made)).first;
  }
  CHECK(found->second->kind == kind);
  return *found->second;
}

Counter& Registry::counter(std::string_view name, std::string_view help, const Labels& labels) {
  const MutexLock lock(mutex_);
  return family(name, help, "counter").counters[label_text(labels)];
}

Gauge& Registry::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  const MutexLock lock(mutex_);
  return family(name, help, "gauge").gauges[label_text(labels)];
}

Histogram& Registry::histogram(std::string_view name, std::string_view help, const Labels& labels,
                               const std::vector<double>& bounds) {
  const MutexLock lock(mutex_);
  return family(name, help, "histogram")
      .histograms.try_emplace(label_text(labels), bounds)
      .first->second;
}

void Registry::gauge_function(std::string_view name, std::string_view help,
                              std::function<double()> read) {
  const MutexLock lock(mutex_);
  family(name, help, "gauge").read = std::move(read);
}

std::string Registry::text() const {
  std::string out;
  const MutexLock lock(mutex_);
  for (const auto& [name, family] : families_) {
    fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name,
                   escape(family->help, false), name, family->kind);
    for (const auto& [labels, counter] : family->counters) {
      fmt::format_to(std::back_inserter(out), "{}{} {}\n", name, braces(labels), counter.value());
    }
    for (const auto& [labels, gauge] : family->gauges) {
      fmt::format_to(std::back_inserter(out), "{}{} {}\n", name, braces(labels), gauge.value());
    }
    for (const auto& [labels, histogram] : family->histograms) {
      print_histogram(out, name, labels, histogram);
    }
    if (family->read) fmt::format_to(std::back_inserter(out), "{} {}\n", name, family->read());
  }
  return out;
}

}  // namespace onggi::metrics
