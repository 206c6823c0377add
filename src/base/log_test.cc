#include "base/log.h"

#include <string>

#include <gtest/gtest.h>

namespace onggi {
namespace {

std::string logged(LogFormat format, std::string_view value) {
  set_up_log({.level = LogLevel::info, .format = format});
  testing::internal::CaptureStderr();
  LOG_INFO("volume opened", {{"name", value}, {"files", 3}, {"ready", true}, {"seconds", 0.5}});
  LOG_DEBUG("not shown");
  return testing::internal::GetCapturedStderr();
}

TEST(LogTest, TextQuotesOnlyWhatNeedsIt) {
  EXPECT_TRUE(logged(LogFormat::text, "plain")
                  .ends_with(" info volume opened name=plain files=3 ready=true seconds=0.5\n"));
  EXPECT_TRUE(logged(LogFormat::text, "two words").find("name=\"two words\" ") !=
              std::string::npos);
  EXPECT_TRUE(logged(LogFormat::text, "").find("name=\"\" ") != std::string::npos);
}

TEST(LogTest, NoValueBreaksALine) {
  for (const LogFormat format : {LogFormat::text, LogFormat::json}) {
    const std::string line = logged(format, "a\nb\" c=\\");
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_NE(line.find(R"("a\u000ab\" c=\\")"), std::string::npos) << line;
  }
}

TEST(LogTest, JsonIsOneObjectALine) {
  const std::string line = logged(LogFormat::json, "plain");
  EXPECT_TRUE(line.starts_with("{\"time\":\"")) << line;
  EXPECT_TRUE(
      line.ends_with("\"level\":\"info\",\"event\":\"volume opened\",\"name\":\"plain\","
                     "\"files\":3,\"ready\":true,\"seconds\":0.5}\n"))
      << line;
}

TEST(LogTest, NamesTheLevelsItKnows) {
  EXPECT_EQ(parse_log_level("warning").value(), LogLevel::warning);
  const auto unknown = parse_log_level("loud");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("debug, info, warning or error"), std::string::npos);
}

}  // namespace
}  // namespace onggi
