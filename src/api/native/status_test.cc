#include "api/native/status.h"

#include <gtest/gtest.h>

namespace onggi::api {
namespace {

TEST(StatusTest, TellsClientsWhenToComeAgain) {
  const http::Response response = error_response(Error(ErrorCode::unavailable, "busy"), "r-1");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.get("Retry-After"), "1");
}

TEST(StatusTest, AsksForAToken) {
  const http::Response response = error_response(Error(ErrorCode::unauthenticated, "no"), "r-1");
  EXPECT_EQ(response.status, 401);
  EXPECT_TRUE(response.headers.get("WWW-Authenticate"));
}

TEST(StatusTest, AnswersProblemDetails) {
  const http::Response response = error_response(Error(ErrorCode::conflict, "why"), "r-1", 423);
  EXPECT_EQ(response.status, 423);
  EXPECT_NE(response.text.find("\"code\":\"conflict\""), std::string::npos) << response.text;
  EXPECT_NE(response.text.find("\"request_id\":\"r-1\""), std::string::npos) << response.text;
}

}  // namespace
}  // namespace onggi::api
