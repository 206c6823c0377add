#include "api/backendai/tokens.h"

#include <algorithm>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "api/backendai/parameters.h"
#include "jwt/jwt.h"

namespace onggi::api::backendai {
namespace {

constexpr std::size_t kTokenBytesMax = 64 << 10;  // the head of a request takes no more

tl::unexpected<Error> refuse(std::string_view why) {
  return fail(ErrorCode::unauthenticated, std::string(why));
}

std::string_view why_not_verified(const std::string& text) {
  const jwt::Token token = jwt::decode_unverified(text);
  if (!token) return "Invalid token";
  const char* const algorithm = jwt_get_header(token.get(), "alg");
  if (algorithm == nullptr) return "Algorithm not specified";
  if (std::string_view(algorithm) != "HS256") return "The specified alg value is not allowed";
  return "Signature verification failed";
}

Status check_times(const boost::json::object& claims, std::int64_t now) {
  const auto time_of = [&claims](const char* name) -> Result<std::optional<std::int64_t>> {
    const boost::json::value* value = claims.if_contains(name);
    if (value == nullptr) return std::nullopt;
    if (const auto* number = value->if_int64()) return *number;
    return refuse(std::string_view(name) == "exp"
                      ? "Expiration Time claim (exp) must be an integer."
                      : fmt::format("The {} claim must be an integer.", name));
  };
  for (const char* name : {"iat", "nbf"}) {
    ASSIGN_OR_RETURN(const auto from, time_of(name));
    if (from && *from > now) return refuse(fmt::format("The token is not yet valid ({})", name));
  }
  ASSIGN_OR_RETURN(const auto until, time_of("exp"));
  if (until && *until <= now) return refuse("Signature has expired");
  return {};
}

// The claims as parameters, or why there are none.
template <typename Grant, typename Read>
TokenReading<Grant> read_claims(Result<boost::json::object> claims, Read read) {
  TokenReading<Grant> reading;
  if (!claims) {
    reading.wrong =
        fmt::format("cannot decode the given value as JWT: {}", claims.error().message());
    return reading;
  }
  Parameters parameters(*std::move(claims));
  parameters.allow_others();
  Grant grant = read(parameters);
  if (parameters.wrong().empty()) {
    reading.grant = std::move(grant);
  } else {
    reading.wrong = parameters.wrong();
  }
  return reading;
}

// What a token for one file says, whichever way it goes.
template <typename Grant>
void read_file(Parameters& claims, std::string_view operation, Grant& grant) {
  claims.exactly("op", operation);
  grant.volume = claims.text("volume");
  grant.vfolder = claims.vfolder("vfid");
  grant.path = claims.text("relpath");
}

boost::json::value or_null(const std::optional<std::string>& text) {
  return text ? boost::json::value(*text) : boost::json::value();
}

}  // namespace

Tokens::Tokens(std::string secret, std::chrono::seconds lifetime, Clock& clock)
    : secret_(std::move(secret)), lifetime_(lifetime), clock_(clock) {}

Result<std::string> Tokens::encode(boost::json::object claims) const {
  const auto now = std::chrono::floor<std::chrono::seconds>(clock_.now());
  claims["exp"] = (now + lifetime_).time_since_epoch().count();
  ASSIGN_OR_RETURN(const jwt::Token token, jwt::make(secret_));
  // Its parser takes no NUL in a text.
  if (jwt_add_grants_json(token.get(), boost::json::serialize(claims).c_str()) != 0) {
    return fail(ErrorCode::invalid_argument, "a token can carry no NUL");
  }
  return jwt::encode(token);
}

Result<std::string> Tokens::issue(const DownloadGrant& grant) const {
  boost::json::object claims = {{"op", "download"},
                                {"volume", grant.volume},
                                {"vfid", grant.vfolder.to_string()},
                                {"relpath", grant.path}};
  // Ours alone: the Python proxy forgets them, and then cannot serve what the manager asked for.
  if (grant.archive) claims["archive"] = true;
  if (grant.unmanaged_path) claims["unmanaged_path"] = *grant.unmanaged_path;
  return encode(std::move(claims));
}

Result<std::string> Tokens::issue(const UploadGrant& grant) const {
  return encode({{"op", "upload"},
                 {"volume", grant.volume},
                 {"vfid", grant.vfolder.to_string()},
                 {"relpath", grant.path},
                 {"size", grant.size_bytes},
                 {"session", grant.session}});
}

Result<std::string> Tokens::issue(const ArchiveGrant& grant) const {
  return encode({{"operation", "download"},
                 {"volume", grant.volume},
                 {"virtual_folder_id", grant.vfolder.to_string()},
                 {"files", boost::json::value_from(grant.files)},
                 {"filename", or_null(grant.filename)}});
}

Result<boost::json::object> Tokens::decode(std::string_view token) const {
  const std::string text(token);
  if (text.size() > kTokenBytesMax || text.find('\0') != std::string::npos ||
      std::ranges::count(text, '.') != 2) {
    return refuse("Not enough segments");
  }
  const jwt::Token verified = jwt::verify(text, secret_);
  if (!verified) return refuse(why_not_verified(text));
  const jwt::Text claims(jwt_get_grants_json(verified.get(), nullptr));
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(claims ? claims.get() : "", error);
  const boost::json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr) return refuse("Invalid payload string");
  const auto now = std::chrono::floor<std::chrono::seconds>(clock_.now());
  RETURN_IF_ERROR(check_times(*object, now.time_since_epoch().count()));
  return *object;
}

TokenReading<DownloadGrant> Tokens::read_download(std::string_view token) const {
  return read_claims<DownloadGrant>(decode(token), [](Parameters& claims) {
    DownloadGrant grant;
    read_file(claims, "download", grant);
    grant.archive = claims.flag("archive", false);
    grant.unmanaged_path = claims.text_or_null("unmanaged_path");
    return grant;
  });
}

TokenReading<UploadGrant> Tokens::read_upload(std::string_view token) const {
  return read_claims<UploadGrant>(decode(token), [](Parameters& claims) {
    UploadGrant grant;
    read_file(claims, "upload", grant);
    grant.session = claims.text("session");
    grant.size_bytes = claims.number("size");
    return grant;
  });
}

TokenReading<ArchiveGrant> Tokens::read_archive(std::string_view token) const {
  return read_claims<ArchiveGrant>(decode(token), [](Parameters& claims) {
    ArchiveGrant grant;
    claims.exactly("operation", "download");
    grant.volume = claims.text("volume");
    grant.vfolder = claims.vfolder("virtual_folder_id");
    grant.files = claims.texts("files");
    grant.filename = claims.text_or_null("filename");
    return grant;
  });
}

}  // namespace onggi::api::backendai
