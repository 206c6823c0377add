#include "vfolder/authority.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "catalog/sqlite/sqlite_catalog.h"
#include "vfolder/temp_folder.h"

namespace onggi::vfolder {
namespace {

class AuthorityTest : public testing::Test {
 protected:
  AuthorityTest()
      : catalog_(catalog::open_sqlite_catalog({.path = folder_.file("catalog.db")}).value()),
        authority_(*catalog_, clock_, metrics_, {.tokens_per_tenant_max = 5, .tenants_max = 4}) {
    clock_.advance(std::chrono::hours(24 * 365 * 50));
    EXPECT_TRUE(authority_.bootstrap(folder_.path()));
    admin_ = authority_.local_admin().value();
  }

  std::string admin_token() const {
    std::ifstream file(folder_.file("admin.token"));
    std::string text;
    std::getline(file, text);
    return text;
  }

  Principal tenant(const std::string& name) {
    const auto made = authority_.create_tenant(admin_, name).value();
    return {.tenant = made.id, .scope = catalog::Scope::tenant, .token_id = "test"};
  }

  ErrorCode refusal(std::string_view token) {
    const auto result = authority_.authenticate(token);
    return result ? ErrorCode::internal : result.error().code();
  }

  TempFolder folder_;
  FakeClock clock_;
  metrics::Registry metrics_;
  std::unique_ptr<catalog::Catalog> catalog_;
  Authority authority_;
  Principal admin_;
};

TEST_F(AuthorityTest, BootstrapsAnAdminTokenThatOnlyTheOwnerReads) {
  const auto principal = authority_.authenticate(admin_token());
  ASSERT_TRUE(principal) << principal.error().message();
  EXPECT_TRUE(principal->is_admin());
  EXPECT_EQ(principal->tenant, admin_.tenant);
  struct stat info{};
  ASSERT_EQ(::stat(folder_.file("admin.token").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(AuthorityTest, BootstrapsOnceAndAgainWhenTheTokenIsLost) {
  const std::string first = admin_token();
  ASSERT_TRUE(authority_.bootstrap(folder_.path()));
  EXPECT_EQ(admin_token(), first);
  std::ofstream(folder_.file("admin.token")) << "rubbish";
  ASSERT_TRUE(authority_.bootstrap(folder_.path()));
  EXPECT_NE(admin_token(), first);
  EXPECT_TRUE(authority_.authenticate(admin_token()));
}

TEST_F(AuthorityTest, RefusesEveryWrongTokenInTheSameWords) {
  const std::string good = admin_token();
  std::vector<std::string> wrong{"", "x", "Bearer " + good, good + "x", good.substr(1)};
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{22}, good.size() - 1}) {
    std::string changed = good;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    wrong.push_back(changed);
  }
  std::string with_nul = good;
  with_nul[10] = '\0';
  wrong.push_back(with_nul);
  wrong.emplace_back(100000, 'a');
  const auto words = authority_.authenticate("").error().message();
  auto& refused = metrics_.counter("onggi_token_checks_total", "", {{"result", "refused"}});
  const auto before = refused.value();
  for (const auto& token : wrong) {
    const auto result = authority_.authenticate(token);
    ASSERT_FALSE(result) << token;
    EXPECT_EQ(result.error().code(), ErrorCode::unauthenticated);
    EXPECT_EQ(result.error().message(), words);
  }
  EXPECT_EQ(refused.value() - before, wrong.size());
}

TEST_F(AuthorityTest, RefusesATokenAtItsExpiry) {
  const auto made = authority_.create_token(
      admin_, {.tenant = {}, .name = "short", .expires_in = std::chrono::seconds(60)});
  ASSERT_TRUE(made);
  EXPECT_TRUE(authority_.authenticate(made->text));
  clock_.advance(std::chrono::seconds(59));
  EXPECT_TRUE(authority_.authenticate(made->text));
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(refusal(made->text), ErrorCode::unauthenticated);
}

TEST_F(AuthorityTest, ForgetsARevokedTokenAtOnce) {
  const auto made = authority_.create_token(admin_, {.tenant = {}, .name = "ci", .expires_in = {}});
  ASSERT_TRUE(made);
  EXPECT_TRUE(authority_.authenticate(made->text));
  ASSERT_TRUE(authority_.revoke_token(admin_, made->token.id));
  EXPECT_EQ(refusal(made->text), ErrorCode::unauthenticated);
}

TEST_F(AuthorityTest, SeesAnotherDaemonsRevocationWithinTheCachesAge) {
  const auto made = authority_.create_token(admin_, {.tenant = {}, .name = "ci", .expires_in = {}});
  EXPECT_TRUE(authority_.authenticate(made->text));
  ASSERT_TRUE(catalog_->tokens().remove(made->token.id));
  clock_.advance(std::chrono::seconds(31));
  EXPECT_EQ(refusal(made->text), ErrorCode::unauthenticated);
}

TEST_F(AuthorityTest, KeepsNoSecret) {
  const std::string text = admin_token();
  const std::string secret = text.substr(text.size() - 43);
  for (const char* name : {"catalog.db", "catalog.db-wal"}) {
    std::ifstream file(folder_.file(name), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(content.find(secret), std::string::npos) << name;
  }
}

TEST_F(AuthorityTest, LetsATenantManageOnlyItsOwnPlainTokens) {
  const Principal red = tenant("red");
  const Principal blue = tenant("blue");
  const auto own = authority_.create_token(red, {.tenant = {}, .name = "ci", .expires_in = {}});
  ASSERT_TRUE(own);
  EXPECT_EQ(own->token.tenant, red.tenant);
  EXPECT_EQ(authority_.authenticate(own->text)->scope, catalog::Scope::tenant);
  EXPECT_EQ(authority_.tokens(red)->size(), 1U);

  const auto admin_scope = authority_.create_token(
      red, {.tenant = {}, .name = "x", .scope = catalog::Scope::admin, .expires_in = {}});
  EXPECT_EQ(admin_scope.error().code(), ErrorCode::permission_denied);
  // A tenant that is there and one that is not look the same.
  const auto foreign =
      authority_.create_token(red, {.tenant = "blue", .name = "x", .expires_in = {}});
  const auto missing =
      authority_.create_token(red, {.tenant = "green", .name = "x", .expires_in = {}});
  EXPECT_EQ(foreign.error().code(), ErrorCode::not_found);
  EXPECT_EQ(foreign.error().message(), missing.error().message());
  EXPECT_EQ(authority_.tokens(red, "blue").error().code(), ErrorCode::not_found);
  EXPECT_EQ(authority_.revoke_token(blue, own->token.id).error().code(), ErrorCode::not_found);
  EXPECT_EQ(authority_.revoke_token(red, admin_token().substr(6, 16)).error().code(),
            ErrorCode::not_found);
  EXPECT_TRUE(authority_.revoke_token(red, own->token.id));
}

TEST_F(AuthorityTest, LetsOnlyAnAdminManageTenants) {
  const Principal red = tenant("red");
  EXPECT_EQ(authority_.create_tenant(red, "x").error().code(), ErrorCode::permission_denied);
  EXPECT_EQ(authority_.remove_tenant(red, "red").error().code(), ErrorCode::permission_denied);
  EXPECT_EQ(authority_.tenants(red)->size(), 1U);
  EXPECT_EQ(authority_.tenants(admin_)->size(), 2U);
  EXPECT_EQ(authority_.create_tenant(admin_, "red").error().code(), ErrorCode::already_exists);
  EXPECT_EQ(authority_.create_tenant(admin_, "../x").error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(authority_.remove_tenant(admin_, "default").error().code(), ErrorCode::conflict);
  EXPECT_EQ(authority_.remove_tenant(admin_, "nobody").error().code(), ErrorCode::not_found);
}

TEST_F(AuthorityTest, RemovingATenantEndsItsTokens) {
  const Principal red = tenant("red");
  const auto made = authority_.create_token(red, {.tenant = {}, .name = "ci", .expires_in = {}});
  EXPECT_TRUE(authority_.authenticate(made->text));
  ASSERT_TRUE(authority_.remove_tenant(admin_, "red"));
  EXPECT_EQ(refusal(made->text), ErrorCode::unauthenticated);
}

TEST_F(AuthorityTest, RefusesMoreTenantsAndTokensThanAllowed) {
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(authority_.create_tenant(admin_, name));
  EXPECT_EQ(authority_.create_tenant(admin_, "d").error().code(), ErrorCode::resource_exhausted);
  ErrorCode last = ErrorCode::internal;
  for (int i = 0; i < 6; ++i) {
    const auto made =
        authority_.create_token(admin_, {.tenant = "a", .name = "t", .expires_in = {}});
    if (!made) last = made.error().code();
  }
  EXPECT_EQ(last, ErrorCode::resource_exhausted);
}

TEST_F(AuthorityTest, ChecksAndRevokesFromManyThreads) {
  std::atomic<int> wrong = 0;
  {
    const std::string admin_text = admin_token();  // outlives the threads
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          if (!authority_.authenticate(admin_text)) ++wrong;
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto made =
            authority_.create_token(admin_, {.tenant = {}, .name = "t", .expires_in = {}});
        if (!made || !authority_.authenticate(made->text)) ++wrong;
        if (!authority_.revoke_token(admin_, made->token.id)) ++wrong;
        if (authority_.authenticate(made->text)) ++wrong;
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace onggi::vfolder
