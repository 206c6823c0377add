#include "vfolder/authority.h"

#include <algorithm>
#include <array>
#include <list>
#include <span>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/encoding.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "vfolder/names.h"

namespace onggi::vfolder {
namespace {

// "onggi_" <16 hexadecimal digits> "_" <43 characters of base64url: 32 random bytes>. The secret
// may hold '_' itself, so the parts are found by position.
constexpr std::string_view kPrefix = "onggi_";
constexpr std::size_t kIdSize = 16;
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kSecretSize = 43;
constexpr std::size_t kTextSize = kPrefix.size() + kIdSize + 1 + kSecretSize;

constexpr std::string_view kDefaultTenant = "default";
constexpr std::string_view kBootstrapName = "bootstrap";

struct TokenParts {
  std::string_view id;
  std::string_view secret;
};

std::optional<TokenParts> split(std::string_view text) {
  if (text.size() != kTextSize || !text.starts_with(kPrefix)) return std::nullopt;
  if (text[kPrefix.size() + kIdSize] != '_') return std::nullopt;
  return TokenParts{.id = text.substr(kPrefix.size(), kIdSize),
                    .secret = text.substr(kPrefix.size() + kIdSize + 1)};
}

// Takes the same time wherever the first difference lies.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

tl::unexpected<Error> refuse() {
  return fail(ErrorCode::unauthenticated, "the token is missing, malformed, unknown or expired");
}

Status require_admin(const Principal& caller) {
  if (caller.is_admin()) return {};
  return fail(ErrorCode::permission_denied, "this needs a token of scope admin");
}

Status write_private_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = path.string() + ".new";
  const FileDescriptor file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno(fmt::format("cannot write '{}'", temporary.string()));
  if (::fchmod(file.get(), 0600) != 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail_errno(fmt::format("cannot write '{}'", path.string()));
  }
  return {};
}

std::string read_small_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> buffer{};
  const ssize_t count = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  std::string text(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

// Records of tokens lately seen, so that a check costs one SHA-256 and one look-up. Holds no
// secrets. An entry older than `age` is read again, which bounds how long a revocation by another
// daemon of the same catalog goes unseen; one by this daemon drops the entry at once.
class Authority::Cache {
 public:
  Cache(std::size_t max, Duration age) : max_(std::max<std::size_t>(max, 1)), age_(age) {}

  std::optional<catalog::Token> find(std::string_view id, SteadyTime now) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(std::string(id));
    if (found == entries_.end() || now - found->second.read > age_) return std::nullopt;
    return found->second.token;
  }

  // What the catalog is asked after this call is newer than any revocation before it.
  std::uint64_t revocations() const EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    return revocations_;
  }

  // Keeps `token` unless something was revoked since `revocations` was read: it might be this one.
  void put(const catalog::Token& token, SteadyTime now, std::uint64_t revocations)
      EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    if (revocations != revocations_) return;
    // Full means that somebody cycles through tokens; starting over is cheaper than an LRU on
    // every check.
    if (entries_.size() >= max_) entries_.clear();
    entries_.insert_or_assign(token.id, Entry{.token = token, .read = now});
  }

  void drop(std::string_view id) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    ++revocations_;
    entries_.erase(std::string(id));
  }

  void clear() EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    ++revocations_;
    entries_.clear();
  }

 private:
  struct Entry {
    catalog::Token token;
    SteadyTime read;
  };

  const std::size_t max_;
  const Duration age_;
  mutable Mutex mutex_;
  std::uint64_t revocations_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Entry> entries_ GUARDED_BY(mutex_);
};

Authority::Authority(catalog::Catalog& catalog, Clock& clock, metrics::Registry& metrics,
                     AuthorityOptions options)
    : catalog_(catalog),
      clock_(clock),
      options_(options),
      accepted_(metrics.counter("onggi_token_checks_total", "API tokens checked",
                                {{"result", "accepted"}})),
      refused_(metrics.counter("onggi_token_checks_total", "API tokens checked",
                               {{"result", "refused"}})),
      cache_(std::make_unique<Cache>(options.cache_max, options.cache_age)) {}

Authority::~Authority() = default;

Status Authority::bootstrap(const std::filesystem::path& data) {
  auto tenant = catalog_.tenants().find(kDefaultTenant);
  if (!tenant && tenant.error().code() == ErrorCode::not_found) {
    const catalog::Tenant fresh{
        .id = Uuid::random(), .name = std::string(kDefaultTenant), .created = clock_.now()};
    const auto inserted = catalog_.tenants().insert(fresh);
    // Another daemon of the same catalog may have been first.
    if (!inserted && inserted.error().code() != ErrorCode::already_exists) return inserted;
    tenant = catalog_.tenants().find(kDefaultTenant);
  }
  if (!tenant) return tl::unexpected(std::move(tenant).error());

  const auto path = data / "admin.token";
  const auto present = authenticate(read_small_file(path));
  if (present && present->is_admin()) return {};
  if (!present && present.error().code() != ErrorCode::unauthenticated) {
    return tl::unexpected(present.error());
  }
  TokenRequest request;
  request.name = kBootstrapName;
  request.scope = catalog::Scope::admin;
  ASSIGN_OR_RETURN(const auto token, issue(*tenant, request));
  RETURN_IF_ERROR(write_private_file(path, token.text + "\n"));
  LOG_INFO("admin token written", {{"path", path.string()}, {"token_id", token.token.id}});
  return {};
}

Result<Principal> Authority::authenticate(std::string_view token) {
  const auto parts = split(token);
  if (!parts) {
    refused_.add();
    return refuse();
  }
  const SteadyTime now = clock_.steady_now();
  auto record = cache_->find(parts->id, now);
  if (!record) {
    const std::uint64_t revocations = cache_->revocations();
    auto read = catalog_.tokens().get(parts->id);
    if (!read && read.error().code() != ErrorCode::not_found) {
      return tl::unexpected(std::move(read).error());
    }
    if (read) {
      cache_->put(*read, now, revocations);
      record = *std::move(read);
    }
  }
  // The hash is taken even when there is no such token: absence takes as long as a wrong secret.
  const std::string hash = sha256(parts->secret);
  const bool good = record && equal_in_constant_time(hash, record->hash) &&
                    (!record->expires || clock_.now() < *record->expires);
  if (!good) {
    refused_.add();
    return refuse();
  }
  accepted_.add();
  return Principal{
      .tenant = record->tenant, .scope = record->scope, .token_id = std::move(record->id)};
}

Result<Principal> Authority::local_admin() {
  ASSIGN_OR_RETURN(const auto tenant, catalog_.tenants().find(kDefaultTenant));
  return Principal{.tenant = tenant.id, .scope = catalog::Scope::admin, .token_id = "local"};
}

Result<catalog::Tenant> Authority::create_tenant(const Principal& caller, std::string_view name) {
  RETURN_IF_ERROR(require_admin(caller));
  RETURN_IF_ERROR(check_name("tenant", name));
  ASSIGN_OR_RETURN(const auto present, catalog_.tenants().list());
  if (present.size() >= options_.tenants_max) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("there are {} tenants, the most allowed", present.size()));
  }
  catalog::Tenant tenant{.id = Uuid::random(), .name = std::string(name), .created = clock_.now()};
  RETURN_IF_ERROR(catalog_.tenants().insert(tenant));
  return tenant;
}

Result<std::vector<catalog::Tenant>> Authority::tenants(const Principal& caller) {
  if (caller.is_admin()) return catalog_.tenants().list();
  ASSIGN_OR_RETURN(auto own, catalog_.tenants().get(caller.tenant));
  return std::vector<catalog::Tenant>{std::move(own)};
}

Status Authority::remove_tenant(const Principal& caller, std::string_view tenant) {
  RETURN_IF_ERROR(require_admin(caller));
  ASSIGN_OR_RETURN(const auto found, find_tenant(tenant));
  if (found.name == kDefaultTenant) {
    return fail(ErrorCode::conflict, "the default tenant cannot be removed");
  }
  RETURN_IF_ERROR(catalog_.tenants().remove(found.id));
  cache_->clear();  // its tokens went with it
  return {};
}

Result<NewToken> Authority::create_token(const Principal& caller, const TokenRequest& request) {
  RETURN_IF_ERROR(check_name("token", request.name));
  if (request.scope == catalog::Scope::admin) RETURN_IF_ERROR(require_admin(caller));
  if (request.expires_in &&
      (request.expires_in->count() <= 0 || *request.expires_in > std::chrono::years(100))) {
    return fail(ErrorCode::invalid_argument,
                "expires_in_seconds must be above 0 and at most 100 years");
  }
  auto tenant =
      request.tenant.empty() ? catalog_.tenants().get(caller.tenant) : find_tenant(request.tenant);
  if (!caller.is_admin() && (!tenant || tenant->id != caller.tenant)) {
    return fail(ErrorCode::not_found, "no such tenant");
  }
  if (!tenant) return tl::unexpected(std::move(tenant).error());
  ASSIGN_OR_RETURN(const auto present, catalog_.tokens().list(tenant->id));
  if (present.size() >= options_.tokens_per_tenant_max) {
    return fail(
        ErrorCode::resource_exhausted,
        fmt::format("the tenant has {} tokens, the most allowed: revoke some", present.size()));
  }
  return issue(*tenant, request);
}

Result<NewToken> Authority::issue(const catalog::Tenant& tenant, const TokenRequest& request) {
  std::array<std::byte, kIdSize / 2> id{};
  fill_random(id);
  const std::string secret = random_token(kSecretBytes);
  NewToken made;
  made.token = {.id = hex_encode(id),
                .tenant = tenant.id,
                .name = request.name,
                .scope = request.scope,
                .hash = sha256(secret),
                .created = clock_.now(),
                .expires = {}};
  if (request.expires_in) made.token.expires = made.token.created + *request.expires_in;
  made.text = fmt::format("{}{}_{}", kPrefix, made.token.id, secret);
  RETURN_IF_ERROR(catalog_.tokens().insert(made.token));
  return made;
}

Result<std::vector<catalog::Token>> Authority::tokens(const Principal& caller,
                                                      std::string_view tenant) {
  if (tenant.empty()) return catalog_.tokens().list(caller.tenant);
  auto found = find_tenant(tenant);
  if (!caller.is_admin() && (!found || found->id != caller.tenant)) {
    return fail(ErrorCode::not_found, "no such tenant");
  }
  if (!found) return tl::unexpected(std::move(found).error());
  return catalog_.tokens().list(found->id);
}

Status Authority::revoke_token(const Principal& caller, std::string_view id) {
  ASSIGN_OR_RETURN(const auto token, catalog_.tokens().get(id));
  const bool own = token.tenant == caller.tenant && token.scope == catalog::Scope::tenant;
  if (!caller.is_admin() && !own) return fail(ErrorCode::not_found, "no such token");
  RETURN_IF_ERROR(catalog_.tokens().remove(id));
  cache_->drop(id);
  return {};
}

Result<catalog::Tenant> Authority::find_tenant(std::string_view text) {
  const auto id = Uuid::parse(text);
  if (id) {
    auto found = catalog_.tenants().get(*id);
    if (found || found.error().code() != ErrorCode::not_found) return found;
  }
  return catalog_.tenants().find(text);
}

}  // namespace onggi::vfolder
