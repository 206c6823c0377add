#include "metrics/metrics.h"

#include <gtest/gtest.h>

namespace onggi::metrics {
namespace {

TEST(RegistryTest, SameNameAndLabelsAreOneCounter) {
  Registry registry;
  registry.counter("onggi_x_total", "X.", {{"code", "200"}}).add(2);
  registry.counter("onggi_x_total", "X.", {{"code", "200"}}).add();
  EXPECT_EQ(registry.counter("onggi_x_total", "X.", {{"code", "200"}}).value(), 3U);
  EXPECT_EQ(
      registry.text(),
      "# HELP onggi_x_total X.\n# TYPE onggi_x_total counter\nonggi_x_total{code=\"200\"} 3\n");
}

TEST(RegistryTest, HistogramBucketsAreCumulativeAndBoundsInclusive) {
  Registry registry;
  Histogram& histogram = registry.histogram("h_seconds", "H.", {{"a", "b"}}, {0.5, 1});
  for (const double value : {0.5, 0.75, 3.0}) histogram.observe(value);
  EXPECT_EQ(registry.text(),
            "# HELP h_seconds H.\n# TYPE h_seconds histogram\n"
            "h_seconds_bucket{a=\"b\",le=\"0.5\"} 1\nh_seconds_bucket{a=\"b\",le=\"1\"} 2\n"
            "h_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\nh_seconds_sum{a=\"b\"} 4.25\n"
            "h_seconds_count{a=\"b\"} 3\n");
}

TEST(RegistryTest, EscapesLabelValuesAndHelp) {
  Registry registry;
  registry.gauge("g", "line\nbreak \\", {{"l", "a\"b\\c\nd"}}).set(-1);
  EXPECT_EQ(registry.text(),
            "# HELP g line\\nbreak \\\\\n# TYPE g gauge\ng{l=\"a\\\"b\\\\c\\nd\"} -1\n");
}

TEST(RegistryTest, FunctionsAreReadAtEachScrape) {
  Registry registry;
  double value = 1;
  registry.gauge_function("f", "F.", [&] { return value; });
  value = 2.5;
  EXPECT_EQ(registry.text(), "# HELP f F.\n# TYPE f gauge\nf 2.5\n");
}

}  // namespace
}  // namespace onggi::metrics
