#include "vfolder/transfer_tokens.h"

#include <array>
#include <charconv>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/random.h"
#include "jwt/jwt.h"

namespace onggi::vfolder {
namespace {

constexpr std::string_view kSecretSetting = "transfer_secret";
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kTokenSizeMax = 16384;  // a path of 4,096 bytes, each escaped, and base64
constexpr std::size_t kVerifiedMax = 4096;
constexpr std::size_t kVerifiedSizeMax = 1024;
constexpr std::chrono::seconds kExpiryMax{7 * 24 * 3600};

tl::unexpected<Error> refuse() {
  return fail(ErrorCode::unauthenticated,
              "the transfer token is missing, malformed, not ours or expired");
}

std::string_view to_text(TransferOperation operation) {
  return operation == TransferOperation::download ? "download" : "upload";
}

// None unless the claim is there as a string.
std::optional<std::string> text_claim(jwt_t* jwt, const char* name) {
  const char* value = jwt_get_grant(jwt, name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::optional<Uuid> uuid_claim(jwt_t* jwt, const char* name) {
  const auto text = text_claim(jwt, name);
  if (!text) return std::nullopt;
  const auto id = Uuid::parse(*text);
  if (!id) return std::nullopt;
  return *id;
}

std::optional<TransferGrant> read_claims(jwt_t* jwt) {
  TransferGrant grant;
  const auto operation = text_claim(jwt, "op");
  if (operation != "download" && operation != "upload") return std::nullopt;
  grant.operation =
      operation == "download" ? TransferOperation::download : TransferOperation::upload;
  const auto vfolder = uuid_claim(jwt, "vfl");
  const auto tenant = uuid_claim(jwt, "ten");
  const auto id = uuid_claim(jwt, "jti");
  const auto path = text_claim(jwt, "pth");
  const std::int64_t expires = jwt_get_grant_int(jwt, "exp");
  if (!vfolder || !tenant || !id || !path || expires <= 0) return std::nullopt;
  auto parsed = backend::RelPath::parse(*path);
  if (!parsed) return std::nullopt;
  grant.vfolder = *vfolder;
  grant.tenant = *tenant;
  grant.id = *id;
  grant.path = *std::move(parsed);
  grant.expires = UnixTime(std::chrono::seconds(expires));
  if (const auto size = text_claim(jwt, "siz")) {
    std::uint64_t value = 0;
    const char* const end = size->data() + size->size();
    const auto [rest, error] = std::from_chars(size->data(), end, value);
    if (error != std::errc() || rest != end) return std::nullopt;
    grant.size_bytes = value;
  }
  return grant;
}

}  // namespace

// Tokens that were verified: an upload in many parts, or a download in many ranges, shows the same
// one again and again.
class TransferTokens::Verified {
 public:
  std::optional<TransferGrant> find(std::string_view token) const EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = grants_.find(std::string(token));
    if (found == grants_.end()) return std::nullopt;
    return found->second;
  }

  void keep(std::string_view token, const TransferGrant& grant) EXCLUDES_LOCK(mutex_) {
    if (token.size() > kVerifiedSizeMax) return;
    const MutexLock lock(mutex_);
    // To start over costs one more check of each, which is less than an order of age on every use.
    if (grants_.size() >= kVerifiedMax) grants_.clear();
    grants_.insert_or_assign(std::string(token), grant);
  }

 private:
  mutable Mutex mutex_;
  std::unordered_map<std::string, TransferGrant> grants_ GUARDED_BY(mutex_);
};

TransferTokens::TransferTokens(std::string secret, Clock& clock)
    : secret_(std::move(secret)), clock_(&clock), verified_(std::make_unique<Verified>()) {}
TransferTokens::~TransferTokens() = default;
TransferTokens::TransferTokens(TransferTokens&&) noexcept = default;
TransferTokens& TransferTokens::operator=(TransferTokens&&) noexcept = default;

Principal TransferGrant::principal() const {
  return {.tenant = tenant,
          .scope = catalog::Scope::tenant,
          .token_id = fmt::format("transfer:{}", id.hex())};
}

Result<TransferTokens> TransferTokens::open(catalog::Catalog& catalog, Clock& clock) {
  auto secret = catalog.settings().get(kSecretSetting);
  if (!secret && secret.error().code() == ErrorCode::not_found) {
    secret = catalog.settings().put_if_absent(kSecretSetting, random_token(kSecretBytes));
  }
  if (!secret) return tl::unexpected(std::move(secret).error());
  return TransferTokens(*std::move(secret), clock);
}

Result<NewTransferToken> TransferTokens::issue(const Principal& caller,
                                               const TransferRequest& request) const {
  if (request.expires_in.count() <= 0 || request.expires_in > kExpiryMax) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("expires_in_seconds must be 1 to {}", kExpiryMax.count()));
  }
  if (request.path.is_root()) {
    return fail(ErrorCode::invalid_argument, "a transfer token is for a file: path is empty");
  }
  NewTransferToken made;
  // Whole seconds, as the claim has them, rounded up so that the token lives as long as asked.
  const auto expires = std::chrono::ceil<std::chrono::seconds>(clock_->now()) + request.expires_in;
  made.grant = {.operation = request.operation,
                .vfolder = request.vfolder,
                .path = request.path,
                .size_bytes = request.size_bytes,
                .tenant = caller.tenant,
                .id = Uuid::random(),
                .expires = expires};
  ASSIGN_OR_RETURN(const jwt::Token token, jwt::make(secret_));
  jwt_t* const raw = token.get();
  const std::string operation(to_text(request.operation));
  bool good = jwt_add_grant(raw, "op", operation.c_str()) == 0;
  good = good && jwt_add_grant(raw, "vfl", request.vfolder.to_string().c_str()) == 0;
  good = good && jwt_add_grant(raw, "pth", request.path.text().c_str()) == 0;
  good = good && jwt_add_grant(raw, "ten", caller.tenant.to_string().c_str()) == 0;
  good = good && jwt_add_grant(raw, "jti", made.grant.id.to_string().c_str()) == 0;
  good = good && jwt_add_grant_int(raw, "exp", expires.time_since_epoch().count()) == 0;
  if (request.size_bytes) {
    // As text: a JSON number loses precision in other people's parsers.
    good = good && jwt_add_grant(raw, "siz", std::to_string(*request.size_bytes).c_str()) == 0;
  }
  if (!good) return fail(ErrorCode::internal, "cannot make a token");
  ASSIGN_OR_RETURN(made.token, jwt::encode(token));
  return made;
}

std::optional<TransferGrant> TransferTokens::decode(std::string_view token) const {
  if (token.empty() || token.size() > kTokenSizeMax || token.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  const jwt::Token verified = jwt::verify(std::string(token), secret_);
  if (!verified) return std::nullopt;
  return read_claims(verified.get());
}

Result<TransferGrant> TransferTokens::verify(std::string_view token,
                                             TransferOperation operation) const {
  auto grant = verified_->find(token);
  if (!grant) {
    grant = decode(token);
    if (grant) verified_->keep(token, *grant);
  }
  if (!grant || grant->expires <= clock_->now()) return refuse();
  if (grant->operation != operation) {
    return fail(ErrorCode::permission_denied,
                fmt::format("the transfer token allows {}, not {}", to_text(grant->operation),
                            to_text(operation)));
  }
  return *std::move(grant);
}

}  // namespace onggi::vfolder
