#include "http/router.h"

#include <gtest/gtest.h>

namespace onggi::http {
namespace {

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    const auto nothing = [](Request&) { return Response{}; };
    router_.handle(Method::get, "/v1/volumes", nothing);
    router_.handle(Method::post, "/v1/volumes", nothing);
    router_.handle(Method::get, "/v1/volumes/{volume}", nothing);
    router_.handle(Method::get, "/v1/files/{folder}/tree/{path*}", nothing);
    router_.take(Method::put, "/v1/files/{folder}/tree/{path*}", [](Request&) { return Intake{}; });
    router_.handle(Method::get, "/special", nothing);
    router_.handle(Method::head, "/special", nothing);
  }

  Result<const Router::Route*> match(Method method, std::string path) {
    request_ = Request{};
    request_.method = method;
    request_.path = std::move(path);
    return router_.match(request_);
  }

  Router router_;
  Request request_;
};

TEST_F(RouterTest, FillsParameters) {
  ASSERT_TRUE(match(Method::get, "/v1/volumes/a%20b"));
  EXPECT_EQ(request_.params.at("volume"), "a b");
  ASSERT_TRUE(match(Method::put, "/v1/files/f/tree/a/b%25c/d"));
  EXPECT_EQ(request_.params.at("folder"), "f");
  EXPECT_EQ(request_.params.at("path"), "a/b%c/d");
}

TEST_F(RouterTest, TheRestMayBeEmpty) {
  ASSERT_TRUE(match(Method::get, "/v1/files/f/tree/"));
  EXPECT_EQ(request_.params.at("path"), "");
  ASSERT_TRUE(match(Method::get, "/v1/files/f/tree"));
  EXPECT_EQ(request_.params.at("path"), "");
}

TEST_F(RouterTest, AnEncodedSlashNeverSplits) {
  ASSERT_TRUE(match(Method::get, "/v1/volumes/a%2Fb"));
  EXPECT_EQ(request_.params.at("volume"), "a/b");
  EXPECT_EQ(match(Method::get, "/v1/files/f/tree/a%2fb").error().code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(match(Method::get, "/v1/volumes/a%2").error().code(), ErrorCode::invalid_argument);
}

TEST_F(RouterTest, TellsAWrongMethodFromAWrongPath) {
  const auto wrong = match(Method::del, "/v1/volumes");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), ErrorCode::unsupported);
  EXPECT_EQ(wrong.error().message(), "GET, POST");
  for (const char* path :
       {"/", "/v1", "/v1/volumes/", "/v1/volumes/a/b", "*", "/v1/files//tree/a"}) {
    const auto missing = match(Method::get, path);
    ASSERT_FALSE(missing) << path;
    EXPECT_EQ(missing.error().code(), ErrorCode::not_found) << path;
  }
}

TEST_F(RouterTest, HeadPrefersItsOwnRoute) {
  EXPECT_EQ((*match(Method::head, "/v1/volumes"))->method, Method::get);
  EXPECT_EQ((*match(Method::head, "/special"))->method, Method::head);
}

TEST(ProblemTest, IsProblemDetails) {
  const Response response = problem(404, "not_found", "say \"what\"", "id-1");
  EXPECT_EQ(response.headers.get("content-type"), "application/problem+json");
  EXPECT_EQ(response.text, R"({"type":"about:blank","title":"Not Found","status":404,)"
                           R"("detail":"say \"what\"","code":"not_found","request_id":"id-1"})");
}

TEST(HeadersTest, CompareWithoutCaseAndKeepOrder) {
  Headers headers;
  headers.add("Set-Cookie", "a");
  headers.add("set-cookie", "b");
  EXPECT_EQ(headers.get("SET-COOKIE"), "a");
  headers.set("SET-cookie", "c");
  EXPECT_EQ(headers.all().size(), 1U);
}

}  // namespace
}  // namespace onggi::http
