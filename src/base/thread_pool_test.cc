#include "base/thread_pool.h"

#include <atomic>
#include <latch>

#include <gtest/gtest.h>

#include "base/gate.h"

namespace onggi {
namespace {

TEST(ThreadPoolTest, RunsEverythingItAcceptedBeforeItCloses) {
  std::atomic<int> done = 0;
  ThreadPool pool({.name = "test", .threads = 3, .queue_max = 1000});
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(pool.submit([&] { ++done; }));
  pool.close();
  EXPECT_EQ(done, 500);
  EXPECT_EQ(pool.submit([] {}).error().code(), ErrorCode::resource_exhausted);
}

TEST(ThreadPoolTest, AFullQueueRefuses) {
  std::latch started(1);
  std::latch release(1);
  ThreadPool pool({.name = "test", .threads = 1, .queue_max = 2});
  ASSERT_TRUE(pool.submit([&] {
    started.count_down();
    release.wait();
  }));
  started.wait();
  EXPECT_TRUE(pool.submit([] {}));
  EXPECT_TRUE(pool.submit([] {}));
  EXPECT_EQ(pool.queued(), 2U);
  EXPECT_EQ(pool.submit([] {}).error().code(), ErrorCode::resource_exhausted);
  release.count_down();
}

TEST(ThreadPoolTest, UsesAllItsThreadsAtOnce) {
  std::latch all(4);
  ThreadPool pool({.name = "test", .threads = 4});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pool.submit([&] { all.arrive_and_wait(); }));
  pool.close();  // hangs unless four run together
}

TEST(GateTest, ClosedLetsNobodyInAndWaitsForThoseInside) {
  Gate gate;
  ASSERT_TRUE(gate.enter());
  gate.close();
  EXPECT_FALSE(gate.enter());
  EXPECT_FALSE(gate.wait_empty(std::chrono::milliseconds(1)));
  std::thread leaver([&] { gate.leave(); });
  EXPECT_TRUE(gate.wait_empty(std::chrono::seconds(60)));
  leaver.join();
}

}  // namespace
}  // namespace onggi
