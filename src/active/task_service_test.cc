#include "active/task_service.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "active/frame.h"
#include "base/clock.h"
#include "base/encoding.h"
#include "base/uuid.h"
#include "metrics/metrics.h"

namespace onggi::active {
namespace {

class TaskServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    TaskServiceOptions options;
    options.broker_program = ONGGI_BROKER;
    options.profiles = default_profiles("");
    auto service = TaskService::start(std::move(options), metrics_, clock_);
    ASSERT_TRUE(service);
    service_ = std::move(*service);
    if (!service_->report().ok)
      GTEST_SKIP() << "no sandbox: " << service_->report().items[0].detail;
  }

  Result<std::shared_ptr<Task>> run(const std::string& spec,
                                    const std::vector<std::vector<std::byte>>& frames = {},
                                    MountResolver resolve = no_mounts) {
    auto intake = service_->open(tenant_, std::move(resolve));
    std::vector<std::byte> body = encode_frame({.kind = FrameKind::spec}, as_bytes(spec));
    for (const auto& frame : frames) body.insert(body.end(), frame.begin(), frame.end());
    const auto buffer = intake->buffer();
    std::copy(body.begin(), body.end(), buffer.begin());
    if (auto status = intake->commit(body.size()); !status) return tl::unexpected(status.error());
    return intake->finish();
  }

  static Result<FileDescriptor> no_mounts(const Uuid&) {
    return fail(ErrorCode::not_found, "no such vfolder");
  }

  static std::vector<Frame> collect(Task& task) {
    std::vector<Frame> frames;
    FrameParser parser;
    while (true) {
      const auto bytes = task.next();
      if (!bytes || bytes->empty()) break;
      EXPECT_TRUE(parser.feed(*bytes, [&](Frame&& frame) -> Status {
        frames.push_back(std::move(frame));
        return {};
      }));
    }
    EXPECT_TRUE(parser.at_boundary());
    return frames;
  }

  static std::vector<std::byte> command(std::uint16_t channel, std::uint32_t sequence,
                                        const std::string& body, std::uint8_t flags = 0) {
    return encode_frame(
        {.kind = FrameKind::command, .flags = flags, .channel = channel, .sequence = sequence},
        as_bytes(body));
  }

  SystemClock clock_;
  metrics::Registry metrics_;
  const Uuid tenant_ = Uuid::random();
  std::unique_ptr<TaskService> service_;
};

TEST_F(TaskServiceTest, EchoesInTheOrderOfCommands) {
  std::vector<std::vector<std::byte>> commands;
  for (std::uint32_t n = 0; n < 100; ++n) {
    commands.push_back(command(static_cast<std::uint16_t>(n % 2), n, "number " + std::to_string(n),
                               n == 99 ? kFlagLast : 0));
  }
  auto task = run(R"({"profile":"native","entry":"echo","workers":2})", commands);
  ASSERT_TRUE(task) << task.error().message();
  const auto frames = collect(**task);
  ASSERT_EQ(frames.size(), 102U) << frames.back().text();
  EXPECT_EQ(frames[0].head.kind, FrameKind::task);
  for (std::uint32_t n = 0; n < 100; ++n) {
    EXPECT_EQ(frames[n + 1].head.sequence, n);
    EXPECT_EQ(frames[n + 1].text(), "number " + std::to_string(n));
  }
  EXPECT_EQ(frames.back().head.kind, FrameKind::end);
  EXPECT_EQ(frames.back().head.flags, kFlagLast);
}

}  // namespace
}  // namespace onggi::active
