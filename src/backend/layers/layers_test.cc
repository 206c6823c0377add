#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backend/conformance/scenarios.h"
#include "backend/layers/fault.h"
#include "backend/layers/limit.h"
#include "backend/layers/metrics_layer.h"
#include "backend/layers/retry.h"
#include "backend/layers/timeout.h"
#include "backend/memory/memory_backend.h"

namespace onggi::backend {
namespace {

using std::chrono::milliseconds;

// Hands every attempt to a function of the test.
class Scripted final : public Interceptor {
 public:
  explicit Scripted(std::function<Status(const Attempt&)> run) : run_(std::move(run)) {}
  Status run(Operation /*operation*/, const Attempt& attempt) override { return run_(attempt); }

 private:
  std::function<Status(const Attempt&)> run_;
};

class LayersTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> memory() {
    return open_memory_backend({.backend = "memory"}, clock_).value();
  }
  std::unique_ptr<Backend> scripted(std::function<Status(const Attempt&)> run) {
    return intercept(memory(), std::make_unique<Scripted>(std::move(run)));
  }

  FakeClock clock_;
  metrics::Registry metrics_;
};

TEST_F(LayersTest, RetryTriesAgainOnlyWhatMayPass) {
  int attempts = 0;
  ErrorCode code = ErrorCode::unavailable;
  const auto backend = with_retry(scripted([&](const Attempt& attempt) -> Status {
                                    if (++attempts < 3) return fail(code, "not now");
                                    return attempt();
                                  }),
                                  {.attempts_max = 3}, clock_);
  EXPECT_TRUE(backend->space());
  EXPECT_EQ(attempts, 3);
  attempts = 0;
  code = ErrorCode::internal;
  EXPECT_FALSE(backend->space());
  EXPECT_EQ(attempts, 1);
}

TEST_F(LayersTest, RetryGivesUpAtTheDeadline) {
  int attempts = 0;
  const auto backend = with_retry(
      scripted([&](const Attempt&) -> Status {
        ++attempts;
        return fail(ErrorCode::unavailable, "never");
      }),
      {.attempts_max = 1000, .first_delay = milliseconds(100), .total_max = milliseconds(1000)},
      clock_);
  EXPECT_EQ(backend->space().error().code(), ErrorCode::unavailable);
  EXPECT_GE(attempts, 3);
  EXPECT_LE(attempts, 6);
  EXPECT_LE(clock_.steady_now().time_since_epoch(), milliseconds(1000));
}

TEST_F(LayersTest, TimeoutLeavesAHungCallBehind) {
  std::latch release(1);
  std::atomic<bool> hang = true;
  {
    const auto backend =
        with_timeout(scripted([&](const Attempt& attempt) {
                       if (hang) release.wait();
                       return attempt();
                     }),
                     "v", {.limit = milliseconds(20), .threads = 2, .queue_max = 1});
    EXPECT_EQ(backend->space().error().code(), ErrorCode::deadline_exceeded);
    hang = false;
    EXPECT_TRUE(backend->space()) << "another thread serves others";
    hang = true;
    EXPECT_EQ(backend->space().error().code(), ErrorCode::deadline_exceeded);
    EXPECT_EQ(backend->space().error().code(), ErrorCode::deadline_exceeded) << "queued";
    EXPECT_EQ(backend->space().error().code(), ErrorCode::unavailable) << "the queue is full";
    release.count_down();
  }
}

TEST_F(LayersTest, LimitLetsSoManyInAndRefusesTheRest) {
  std::latch inside(2);
  std::latch release(1);
  const auto backend = with_limit(scripted([&](const Attempt& attempt) {
                                    inside.count_down();
                                    release.wait();
                                    return attempt();
                                  }),
                                  "v", {.in_flight_max = 2, .waiting_max = 0}, metrics_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { EXPECT_TRUE(backend->space()); });
  inside.wait();
  EXPECT_EQ(backend->space().error().code(), ErrorCode::unavailable);
  EXPECT_NE(metrics_.text().find("onggi_backend_refused_total{volume=\"v\"} 1"), std::string::npos);
  release.count_down();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LayersTest, MetricsCountByOutcome) {
  const auto backend = with_metrics(memory(), "v", metrics_, clock_);
  const FolderId id{Uuid::random(), Uuid::random()};
  EXPECT_FALSE(backend->open_folder(id));
  const std::string expected =
      "onggi_backend_operations_total{volume=\"v\",operation=\"open_folder\","
      "outcome=\"not_found\"} 1";
  EXPECT_NE(metrics_.text().find(expected), std::string::npos) << metrics_.text();
}

TEST_F(LayersTest, FaultsAreTheSameForTheSameSeed) {
  const auto outcomes = [&](std::uint64_t seed) {
    const auto backend = with_fault(memory(), {.seed = seed, .error_rate = 0.5}, clock_);
    std::vector<bool> out;
    for (int i = 0; i < 100; ++i) out.push_back(backend->space().has_value());
    return out;
  };
  EXPECT_EQ(outcomes(7), outcomes(7));
  EXPECT_NE(outcomes(7), outcomes(8));
}

TEST_F(LayersTest, StandBeforeTheCommitOfAStagedFile) {
  auto backend =
      with_fault(memory(), {.seed = 3, .lost_reply_rate = 0.5, .only = Operation::commit}, clock_);
  backend = with_retry(std::move(backend),
                       {.attempts_max = 50, .total_max = std::chrono::hours(1'000)}, clock_);
  backend = with_metrics(std::move(backend), "v", metrics_, clock_);
  const FolderId id{Uuid::random(), Uuid::random()};
  ASSERT_TRUE(backend->create_folder(id, 0775));
  const auto folder = backend->open_folder(id).value();
  for (int i = 0; i < 20; ++i) {
    const auto staged = folder->stage(Uuid::random(), true, 0).value();
    const auto path = RelPath::parse(std::to_string(i)).value();
    EXPECT_TRUE(staged->commit(path, {.if_absent = true})) << "the file that is there is ours";
  }
  const std::string expected =
      "onggi_backend_operations_total{volume=\"v\",operation=\"commit\",outcome=\"ok\"} 20";
  EXPECT_NE(metrics_.text().find(expected), std::string::npos) << metrics_.text();
}

class LayeredBackendTest : public testing::TestWithParam<Scenario> {};

// All layers at once, over storage that fails every fifth time: callers notice nothing.
TEST_P(LayeredBackendTest, Conforms) {
  FakeClock retry_clock;
  const SystemClock clock;
  metrics::Registry metrics;
  auto backend = open_memory_backend({.backend = "memory"}, clock).value();
  backend = with_fault(std::move(backend), {.seed = 42, .error_rate = 0.2}, retry_clock);
  backend = with_limit(std::move(backend), "v", {}, metrics);
  backend = with_timeout(std::move(backend), "v", {});
  backend =
      with_retry(std::move(backend),
                 {.attempts_max = 50, .total_max = std::chrono::hours(1'000'000)}, retry_clock);
  backend = with_metrics(std::move(backend), "v", metrics, clock);
  GetParam().run(*backend);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, LayeredBackendTest, testing::ValuesIn(scenarios()));

}  // namespace
}  // namespace onggi::backend
