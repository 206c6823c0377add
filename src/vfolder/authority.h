#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"
#include "catalog/catalog.h"
#include "metrics/metrics.h"
#include "vfolder/principal.h"

namespace onggi::vfolder {

struct AuthorityOptions {
  std::size_t cache_max = 65536;       // verified tokens held in memory
  std::chrono::seconds cache_age{30};  // how long another daemon's revocation may go unseen
  std::size_t tokens_per_tenant_max = 1000;
  std::size_t tenants_max = 10000;
};

struct TokenRequest {
  std::string tenant;  // name or id; empty for the caller's own
  std::string name;
  catalog::Scope scope = catalog::Scope::tenant;
  std::optional<std::chrono::seconds> expires_in;
};

struct NewToken {
  catalog::Token token;
  std::string text;  // shown once
};

// Tenants and API tokens, and the check of a token on every request. Thread-safe; `catalog`,
// `clock` and `metrics` must outlive it.
class Authority {
 public:
  Authority(catalog::Catalog& catalog, Clock& clock, metrics::Registry& metrics,
            AuthorityOptions options = {});
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;
  Authority(Authority&&) = delete;
  Authority& operator=(Authority&&) = delete;

  // Makes the tenant "default" and, when `data`/admin.token is missing or no longer valid, an
  // admin token written there with mode 0600. Call once before serving.
  Status bootstrap(const std::filesystem::path& data);

  // Of the text after "Bearer ". unauthenticated, in the same words, for whatever is wrong with it.
  Result<Principal> authenticate(std::string_view token);
  // Who a trusted peer of the Unix socket is: an admin of the default tenant.
  Result<Principal> local_admin();

  // For an admin; permission_denied otherwise. A tenant alone sees itself in tenants().
  Result<catalog::Tenant> create_tenant(const Principal& caller, std::string_view name);
  Result<std::vector<catalog::Tenant>> tenants(const Principal& caller);
  // `tenant` is a name or an id. conflict while it owns vfolders, or when it is the default one.
  Status remove_tenant(const Principal& caller, std::string_view tenant);

  // A tenant manages its own tokens of scope tenant, an admin everybody's. `tenant` may be empty
  // for the caller's own.
  Result<NewToken> create_token(const Principal& caller, const TokenRequest& request);
  Result<std::vector<catalog::Token>> tokens(const Principal& caller, std::string_view tenant = {});
  Status revoke_token(const Principal& caller, std::string_view id);

 private:
  class Cache;

  Result<catalog::Tenant> find_tenant(std::string_view text);
  Result<NewToken> issue(const catalog::Tenant& tenant, const TokenRequest& request);

  catalog::Catalog& catalog_;
  Clock& clock_;
  const AuthorityOptions options_;
  metrics::Counter& accepted_;
  metrics::Counter& refused_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace onggi::vfolder
