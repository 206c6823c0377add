#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace onggi::metrics {

// Label names and values, in order: {{"route", "/v1/volumes"}, {"code", "200"}}. Values come from
// closed sets, never from users.
using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void set(std::int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void add(std::int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Fixed buckets; bounds ascending, +Inf implied.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  const std::vector<double>& bounds() const { return bounds_; }
  // Count in bucket `i`, not cumulative; i == bounds().size() is +Inf.
  std::uint64_t bucket(std::size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::deque<std::atomic<std::uint64_t>> buckets_;
  std::atomic<double> sum_{0};
};

// 100 µs to 60 s, for durations in seconds.
std::vector<double> duration_bounds();

// Owns metrics and prints them. A name has one help line and one kind; asking again with the same
// labels gives the same object, which lives as long as the registry. Thread-safe.
class Registry {
 public:
  Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, const Labels& labels = {},
                       const std::vector<double>& bounds = duration_bounds());
  // `read` is called at each scrape.
  void gauge_function(std::string_view name, std::string_view help, std::function<double()> read);

  // Prometheus text exposition format, version 0.0.4.
  std::string text() const;

 private:
  struct Family;
  Family& family(std::string_view name, std::string_view help, std::string_view kind)
      REQUIRES_LOCK(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Family>, std::less<>> families_ GUARDED_BY(mutex_);

 public:
  Registry();
  ~Registry();
};

}  // namespace onggi::metrics
