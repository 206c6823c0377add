#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "api/backendai/identifiers.h"
#include "base/clock.h"
#include "base/result.h"

namespace onggi::api::backendai {

// What the manager lets a client do, as claims of a JWT (RFC 7519, HS256). Any proxy of the site
// reads what any other has written.
struct DownloadGrant {
  std::string volume;
  VFolderId vfolder;
  std::string path;
  bool archive = false;
  std::optional<std::string> unmanaged_path;
};

struct UploadGrant {
  std::string volume;
  VFolderId vfolder;
  std::string path;
  std::int64_t size_bytes = 0;
  std::string session;  // 32 hexadecimal digits
};

struct ArchiveGrant {
  std::string volume;
  VFolderId vfolder;
  std::vector<std::string> files;
  std::optional<std::string> filename;
};

// A grant, or what is wrong with its token: a text, or {claim: text}.
template <typename Grant>
struct TokenReading {
  std::optional<Grant> grant;
  boost::json::value wrong;
};

// Makes and reads the tokens of one site. Thread-safe.
class Tokens {
 public:
  // `secret` is storage-proxy.secret, `lifetime` storage-proxy.session-expire.
  Tokens(std::string secret, std::chrono::seconds lifetime, Clock& clock);

  // invalid_argument for a text with NUL.
  Result<std::string> issue(const DownloadGrant& grant) const;
  Result<std::string> issue(const UploadGrant& grant) const;
  Result<std::string> issue(const ArchiveGrant& grant) const;

  // A token without an expiry is good for ever, as with the Python proxy.
  TokenReading<DownloadGrant> read_download(std::string_view token) const;
  TokenReading<UploadGrant> read_upload(std::string_view token) const;
  TokenReading<ArchiveGrant> read_archive(std::string_view token) const;

  // The claims of a token that is ours and of now; else why not, in the words of PyJWT.
  Result<boost::json::object> decode(std::string_view token) const;

 private:
  Result<std::string> encode(boost::json::object claims) const;

  const std::string secret_;
  const std::chrono::seconds lifetime_;
  Clock& clock_;
};

}  // namespace onggi::api::backendai
