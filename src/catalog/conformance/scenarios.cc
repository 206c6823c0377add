#include "catalog/conformance/scenarios.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace onggi::catalog {
namespace {

using std::chrono::milliseconds;

UnixTime at(int ms) {
  return UnixTime(milliseconds(ms));
}

Uuid id(int n) {
  return Uuid::parse(fmt::format("{:032x}", n)).value();
}

// gtest's EXPECT on the code of a Result or Status.
template <typename T>
void expect_code(const T& result, ErrorCode code) {
  ASSERT_FALSE(result.has_value()) << "succeeded";
  EXPECT_EQ(to_string(result.error().code()), to_string(code)) << result.error().message();
}

template <typename T>
void expect_ok(const T& result) {
  EXPECT_TRUE(result.has_value()) << result.error().message();
}

Tenant tenant(int n, std::string name) {
  return {.id = id(n), .name = std::move(name), .created = at(n)};
}

VFolder vfolder(int n, int owner, std::string name) {
  return {.id = id(n),
          .volume = "local",
          .quota_scope = id(owner),
          .name = std::move(name),
          .tenant = id(owner),
          .state = VFolderState::active,
          .created = at(n)};
}

Share share(const Uuid& folder, const Uuid& with, Permission permission) {
  return {.vfolder = folder, .tenant = with, .permission = permission, .created = at(0)};
}

Volume volume(std::string name, std::string backend, std::map<std::string, std::string> options,
              UnixTime created) {
  return {.name = std::move(name),
          .backend = std::move(backend),
          .options = std::move(options),
          .created = created};
}

Upload upload(int n, int folder, int expires) {
  return {.id = id(n),
          .vfolder = id(folder),
          .path = "a/b",
          .length = 1U << 20U,
          .xxh3 = {},
          .if_etag = {},
          .if_absent = false,
          .created = at(n),
          .expires = at(expires),
          .etag = {}};
}

Token token(std::string token_id, int owner) {
  return {.id = std::move(token_id),
          .tenant = id(owner),
          .name = "ci",
          .scope = Scope::admin,
          .hash = std::string(31, 'h') + '\0',
          .created = at(5),
          .expires = at(9)};
}

void add_two_tenants(Catalog& catalog) {
  expect_ok(catalog.tenants().insert(tenant(1, "red")));
  expect_ok(catalog.tenants().insert(tenant(2, "blue")));
}

void tenants_round_trip(Catalog& catalog) {
  add_two_tenants(catalog);
  const auto got = catalog.tenants().get(id(1));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->name, "red");
  EXPECT_EQ(got->created, at(1));
  EXPECT_EQ(catalog.tenants().find("blue")->id, id(2));
  const auto all = catalog.tenants().list();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->front().name, "blue");  // by name
  expect_code(catalog.tenants().insert(tenant(3, "red")), ErrorCode::already_exists);
  expect_code(catalog.tenants().get(id(3)), ErrorCode::not_found);
  expect_code(catalog.tenants().find("Red"), ErrorCode::not_found);
}

void tenant_with_vfolders_cannot_go(Catalog& catalog) {
  add_two_tenants(catalog);
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, "data")));
  expect_code(catalog.tenants().remove(id(1)), ErrorCode::conflict);
  expect_ok(catalog.vfolders().remove(id(10)));
  expect_ok(catalog.tenants().remove(id(1)));
  expect_code(catalog.tenants().remove(id(1)), ErrorCode::not_found);
}

void tenant_takes_tokens_and_shares_along(Catalog& catalog) {
  add_two_tenants(catalog);
  expect_ok(catalog.tokens().insert(token("00000000000000aa", 2)));
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, "data")));
  expect_ok(catalog.shares().put(share(id(10), id(2), Permission::read_only)));
  expect_ok(catalog.tenants().remove(id(2)));
  expect_code(catalog.tokens().get("00000000000000aa"), ErrorCode::not_found);
  EXPECT_TRUE(catalog.shares().list(id(10))->empty());
}

void tokens_round_trip(Catalog& catalog) {
  add_two_tenants(catalog);
  const Token first = token("00000000000000aa", 1);
  Token second = token("00000000000000bb", 1);
  second.scope = Scope::tenant;
  second.expires.reset();
  second.created = at(6);
  expect_ok(catalog.tokens().insert(first));
  expect_ok(catalog.tokens().insert(second));
  const auto got = catalog.tokens().get(first.id);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->hash, first.hash);  // a NUL inside survives
  EXPECT_EQ(got->scope, Scope::admin);
  EXPECT_EQ(got->expires, first.expires);
  EXPECT_EQ(got->tenant, id(1));
  const auto all = catalog.tokens().list(id(1));
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[1].scope, Scope::tenant);
  EXPECT_FALSE((*all)[1].expires);
  EXPECT_TRUE(catalog.tokens().list(id(2))->empty());
  expect_ok(catalog.tokens().remove(first.id));
  expect_code(catalog.tokens().remove(first.id), ErrorCode::not_found);
  expect_code(catalog.tokens().get(first.id), ErrorCode::not_found);
  expect_code(catalog.tokens().insert(token("00000000000000cc", 7)), ErrorCode::not_found);
}

void volumes_round_trip(Catalog& catalog) {
  expect_ok(
      catalog.volumes().insert(volume("b", "posix", {{"path", "/b"}, {"sync", "no"}}, at(1))));
  expect_ok(catalog.volumes().insert(volume("a", "memory", {}, at(2))));
  expect_code(catalog.volumes().insert(volume("a", "posix", {}, at(3))), ErrorCode::already_exists);
  const auto all = catalog.volumes().list();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].name, "a");
  EXPECT_EQ((*all)[0].backend, "memory");
  EXPECT_TRUE((*all)[0].options.empty());
  EXPECT_EQ((*all)[1].options.at("path"), "/b");
  EXPECT_EQ((*all)[1].options.size(), 2U);
  expect_ok(catalog.volumes().remove("a"));
  expect_code(catalog.volumes().remove("a"), ErrorCode::not_found);
}

void volume_with_vfolders_cannot_go(Catalog& catalog) {
  add_two_tenants(catalog);
  expect_ok(catalog.volumes().insert(volume("local", "posix", {{"path", "/b"}}, at(1))));
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, "data")));
  expect_code(catalog.volumes().remove("local"), ErrorCode::conflict);
  expect_ok(catalog.vfolders().remove(id(10)));
  expect_ok(catalog.volumes().remove("local"));
}

void vfolders_are_seen_by_owner_and_sharers(Catalog& catalog) {
  add_two_tenants(catalog);
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, "data")));
  const auto own = catalog.vfolders().get(id(10), id(1));
  ASSERT_TRUE(own);
  EXPECT_EQ(own->permission, Permission::owner);
  EXPECT_EQ(own->vfolder.name, "data");
  EXPECT_EQ(own->vfolder.quota_scope, id(1));
  EXPECT_EQ(own->vfolder.created, at(10));
  const auto foreign = catalog.vfolders().get(id(10), id(2));
  const auto missing = catalog.vfolders().get(id(11), id(2));
  expect_code(foreign, ErrorCode::not_found);
  expect_code(missing, ErrorCode::not_found);
  EXPECT_EQ(foreign.error().message(), missing.error().message());
  expect_ok(catalog.shares().put(share(id(10), id(2), Permission::read_only)));
  EXPECT_EQ(catalog.vfolders().get(id(10), id(2))->permission, Permission::read_only);
  expect_ok(catalog.shares().put(share(id(10), id(2), Permission::read_write)));
  EXPECT_EQ(catalog.vfolders().get(id(10), id(2))->permission, Permission::read_write);
  expect_ok(catalog.shares().remove(id(10), id(2)));
  expect_code(catalog.vfolders().get(id(10), id(2)), ErrorCode::not_found);
  expect_code(catalog.shares().remove(id(10), id(2)), ErrorCode::not_found);
  expect_code(catalog.shares().put(share(id(99), id(2), Permission::read_only)),
              ErrorCode::not_found);
}

void vfolder_names_are_unique_per_tenant_and_volume(Catalog& catalog) {
  add_two_tenants(catalog);
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, "data")));
  expect_code(catalog.vfolders().insert(vfolder(11, 1, "data")), ErrorCode::already_exists);
  expect_ok(catalog.vfolders().insert(vfolder(12, 2, "data")));
  VFolder elsewhere = vfolder(13, 1, "data");
  elsewhere.volume = "other";
  expect_ok(catalog.vfolders().insert(elsewhere));
  expect_ok(catalog.vfolders().insert(vfolder(14, 1, "more")));
  expect_code(catalog.vfolders().rename(id(14), "data"), ErrorCode::already_exists);
  expect_ok(catalog.vfolders().rename(id(14), "less"));
  expect_ok(catalog.vfolders().rename(id(14), "less"));  // to itself
  EXPECT_EQ(catalog.vfolders().get(id(14), id(1))->vfolder.name, "less");
  expect_code(catalog.vfolders().rename(id(99), "x"), ErrorCode::not_found);
  // A folder on its way out gives its name free; one being made has taken it.
  expect_ok(catalog.vfolders().set_state(id(10), VFolderState::deleting));
  expect_ok(catalog.vfolders().insert(vfolder(15, 1, "data")));
  VFolder creating = vfolder(16, 1, "new");
  creating.state = VFolderState::creating;
  expect_ok(catalog.vfolders().insert(creating));
  expect_code(catalog.vfolders().insert(vfolder(17, 1, "new")), ErrorCode::already_exists);
}

void vfolders_not_active_are_for_recovery_alone(Catalog& catalog) {
  add_two_tenants(catalog);
  for (int n = 10; n < 15; ++n) {
    expect_ok(catalog.vfolders().insert(vfolder(n, 1, fmt::format("f{}", n))));
    if (n != 12) expect_ok(catalog.vfolders().set_state(id(n), VFolderState::deleting));
  }
  expect_code(catalog.vfolders().get(id(10), id(1)), ErrorCode::not_found);
  expect_code(catalog.vfolders().rename(id(10), "x"), ErrorCode::not_found);
  EXPECT_EQ(
      catalog.vfolders().list({.tenant = id(1), .volume = {}, .name = {}, .after = {}})->size(),
      1U);
  const auto first = catalog.vfolders().in_state(VFolderState::deleting, Uuid(), 3);
  ASSERT_EQ(first->size(), 3U);
  EXPECT_EQ((*first)[2].id, id(13));
  const auto rest = catalog.vfolders().in_state(VFolderState::deleting, id(13), 3);
  ASSERT_EQ(rest->size(), 1U);
  EXPECT_EQ(rest->front().state, VFolderState::deleting);
}

void vfolders_are_listed_in_pages(Catalog& catalog) {
  add_two_tenants(catalog);
  for (int n = 0; n < 25; ++n) {
    expect_ok(catalog.vfolders().insert(vfolder(100 + n, 1, fmt::format("own{:02}", n))));
  }
  const VFolder same_name = vfolder(50, 2, "own03");
  expect_ok(catalog.vfolders().insert(same_name));
  expect_ok(catalog.shares().put(share(id(50), id(1), Permission::read_only)));
  expect_ok(catalog.vfolders().insert(vfolder(51, 2, "hidden")));
  VFolderQuery query{.tenant = id(1), .volume = {}, .name = {}, .after = {}, .limit = 7};
  std::vector<std::pair<std::string, Uuid>> seen;
  while (true) {
    const auto page = catalog.vfolders().list(query);
    ASSERT_TRUE(page);
    for (const auto& item : *page) seen.emplace_back(item.vfolder.name, item.vfolder.id);
    if (page->size() < query.limit) break;
    query.after = seen.back();
  }
  EXPECT_EQ(seen.size(), 26U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen[3].second, id(50));  // the same name, by id

  const auto named =
      catalog.vfolders().list({.tenant = id(1), .volume = {}, .name = "own03", .after = {}});
  ASSERT_EQ(named->size(), 2U);
  EXPECT_EQ((*named)[0].permission, Permission::read_only);
  EXPECT_EQ((*named)[1].permission, Permission::owner);
  EXPECT_TRUE(catalog.vfolders()
                  .list({.tenant = id(1), .volume = "other", .name = {}, .after = {}})
                  ->empty());
}

void uploads_round_trip(Catalog& catalog) {
  add_two_tenants(catalog);
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, "data")));
  Upload full = upload(20, 10, 500);
  full.xxh3 = 0xfedcba9876543210U;
  full.if_etag = "\"v1\"";
  full.if_absent = true;
  full.length = 0x7fffffffffffffffU;
  expect_ok(catalog.uploads().insert(full));
  expect_code(catalog.uploads().insert(full), ErrorCode::already_exists);
  expect_code(catalog.uploads().insert(upload(21, 99, 1)), ErrorCode::not_found);
  const auto got = catalog.uploads().get(id(20));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->xxh3, full.xxh3);
  EXPECT_EQ(got->if_etag, full.if_etag);
  EXPECT_TRUE(got->if_absent);
  EXPECT_EQ(got->length, full.length);
  EXPECT_EQ(got->expires, at(500));
  EXPECT_FALSE(got->etag);
  EXPECT_EQ(catalog.uploads().count(id(10)).value(), 1U);
  expect_ok(catalog.uploads().complete(id(20), "\"v2\"", at(600)));
  EXPECT_EQ(catalog.uploads().count(id(10)).value(), 0U);
  EXPECT_TRUE(catalog.uploads().list(id(10))->empty());
  EXPECT_EQ(catalog.uploads().get(id(20))->etag, "\"v2\"");
  expect_ok(catalog.uploads().extend(id(20), at(700)));
  EXPECT_EQ(catalog.uploads().get(id(20))->expires, at(700));
  expect_ok(catalog.uploads().remove(id(20)));
  expect_code(catalog.uploads().get(id(20)), ErrorCode::not_found);
  expect_code(catalog.uploads().complete(id(20), "x", at(1)), ErrorCode::not_found);
}

void uploads_expire_in_order_and_go_with_their_vfolder(Catalog& catalog) {
  add_two_tenants(catalog);
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, "data")));
  expect_ok(catalog.vfolders().insert(vfolder(11, 1, "more")));
  for (int n = 0; n < 5; ++n) expect_ok(catalog.uploads().insert(upload(20 + n, 10, 100 - n)));
  expect_ok(catalog.uploads().insert(upload(30, 11, 1000)));
  const auto expired = catalog.uploads().expired(at(99), 3);
  ASSERT_EQ(expired->size(), 3U);
  EXPECT_EQ(expired->front().id, id(24));
  EXPECT_EQ(catalog.uploads().list(id(10))->size(), 5U);
  expect_ok(catalog.vfolders().remove(id(10)));
  EXPECT_TRUE(catalog.uploads().list(id(10))->empty());
  EXPECT_EQ(catalog.uploads().list(id(11))->size(), 1U);
}

void settings_keep_the_first_value(Catalog& catalog) {
  expect_code(catalog.settings().get("secret"), ErrorCode::not_found);
  const std::string value("a\0b", 3);
  EXPECT_EQ(catalog.settings().put_if_absent("secret", value).value(), value);
  EXPECT_EQ(catalog.settings().put_if_absent("secret", "other").value(), value);
  EXPECT_EQ(catalog.settings().get("secret").value(), value);
}

void quotes_and_unicode_are_only_text(Catalog& catalog) {
  add_two_tenants(catalog);
  const std::string name = "Robert'); DROP TABLE vfolders;-- 옹기 \"%_";
  expect_ok(catalog.vfolders().insert(vfolder(10, 1, name)));
  const auto found =
      catalog.vfolders().list({.tenant = id(1), .volume = {}, .name = name, .after = {}});
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().vfolder.name, name);
}

// Tries to insert f0 … f9 and counts how that ends.
void race(Catalog& catalog, int first_id, std::atomic<int>& won, std::atomic<int>& lost) {
  for (int n = 0; n < 10; ++n) {
    const auto status = catalog.vfolders().insert(vfolder(first_id + n, 1, fmt::format("f{}", n)));
    if (status) ++won;
    if (!status && status.error().code() == ErrorCode::already_exists) ++lost;
    expect_ok(catalog.vfolders().list({.tenant = id(1), .volume = {}, .name = {}, .after = {}}));
  }
}

void threads_race_for_one_name_and_one_wins(Catalog& catalog) {
  add_two_tenants(catalog);
  std::atomic<int> won = 0;
  std::atomic<int> lost = 0;
  std::vector<std::jthread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] { race(catalog, 100 + t * 10, won, lost); });
  }
  threads.clear();  // joins
  EXPECT_EQ(won, 10);
  EXPECT_EQ(lost, 70);
}

}  // namespace

std::vector<Scenario> scenarios() {
  return {
      {.name = "tenants_round_trip", .run = tenants_round_trip},
      {.name = "tenant_with_vfolders_cannot_go", .run = tenant_with_vfolders_cannot_go},
      {.name = "tenant_takes_tokens_and_shares_along", .run = tenant_takes_tokens_and_shares_along},
      {.name = "tokens_round_trip", .run = tokens_round_trip},
      {.name = "volumes_round_trip", .run = volumes_round_trip},
      {.name = "volume_with_vfolders_cannot_go", .run = volume_with_vfolders_cannot_go},
      {.name = "vfolders_are_seen_by_owner_and_sharers",
       .run = vfolders_are_seen_by_owner_and_sharers},
      {.name = "vfolder_names_are_unique", .run = vfolder_names_are_unique_per_tenant_and_volume},
      {.name = "vfolders_not_active_are_for_recovery_alone",
       .run = vfolders_not_active_are_for_recovery_alone},
      {.name = "vfolders_are_listed_in_pages", .run = vfolders_are_listed_in_pages},
      {.name = "uploads_round_trip", .run = uploads_round_trip},
      {.name = "uploads_expire_and_go_with_their_vfolder",
       .run = uploads_expire_in_order_and_go_with_their_vfolder},
      {.name = "settings_keep_the_first_value", .run = settings_keep_the_first_value},
      {.name = "quotes_and_unicode_are_only_text", .run = quotes_and_unicode_are_only_text},
      {.name = "threads_race_for_one_name_and_one_wins",
       .run = threads_race_for_one_name_and_one_wins},
  };
}

}  // namespace onggi::catalog
