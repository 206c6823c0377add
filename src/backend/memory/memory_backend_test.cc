#include "backend/memory/memory_backend.h"

#include <gtest/gtest.h>

#include "backend/conformance/scenarios.h"

namespace onggi::backend {
namespace {

class MemoryBackendTest : public testing::TestWithParam<Scenario> {};

TEST_P(MemoryBackendTest, Conforms) {
  const SystemClock clock;
  const auto backend = open_memory_backend({.backend = "memory"}, clock).value();
  GetParam().run(*backend);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, MemoryBackendTest, testing::ValuesIn(scenarios()));

TEST(MemoryBackendOptionsTest, RefusesWhatItDoesNotKnow) {
  const SystemClock clock;
  const auto backend =
      open_memory_backend({.backend = "memory", .options = {{"path", "/x"}}}, clock);
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message().find("path"), std::string::npos);
}

}  // namespace
}  // namespace onggi::backend
