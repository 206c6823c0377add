#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend/rel_path.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"
#include "catalog/catalog.h"
#include "vfolder/principal.h"

namespace onggi::vfolder {

enum class TransferOperation : std::uint8_t { download, upload };

// What a transfer token allows: one operation on one path of one vfolder.
struct TransferGrant {
  TransferOperation operation = TransferOperation::download;
  Uuid vfolder;
  backend::RelPath path;
  std::optional<std::uint64_t> size_bytes;  // of an upload, when promised
  Uuid tenant;  // on whose behalf; its permission is checked again on use
  Uuid id;      // jti; an upload session made with the token has this id
  UnixTime expires{};

  Principal principal() const;
};

struct TransferRequest {
  TransferOperation operation = TransferOperation::download;
  Uuid vfolder;
  backend::RelPath path;
  std::optional<std::uint64_t> size_bytes;
  std::chrono::seconds expires_in{600};  // at most 7 days
};

struct NewTransferToken {
  std::string token;
  TransferGrant grant;
};

// Short-lived tokens (JWT, HS256) that let a browser or a job move one file without an API token.
// Thread-safe. Check the caller's permission on the vfolder before issue().
class TransferTokens {
 public:
  // The secret lives in the catalog, made on first use.
  static Result<TransferTokens> open(catalog::Catalog& catalog, Clock& clock);

  Result<NewTransferToken> issue(const Principal& caller, const TransferRequest& request) const;
  // unauthenticated for any token that is malformed, unsigned, wrongly signed, expired or of other
  // claims; permission_denied when it is good for the other operation.
  Result<TransferGrant> verify(std::string_view token, TransferOperation operation) const;

  ~TransferTokens();
  TransferTokens(TransferTokens&&) noexcept;
  TransferTokens& operator=(TransferTokens&&) noexcept;
  TransferTokens(const TransferTokens&) = delete;
  TransferTokens& operator=(const TransferTokens&) = delete;

 private:
  class Verified;
  TransferTokens(std::string secret, Clock& clock);
  std::optional<TransferGrant> decode(std::string_view token) const;

  std::string secret_;
  Clock* clock_;  // never null; a pointer so that the class can be moved
  std::unique_ptr<Verified> verified_;
};

}  // namespace onggi::vfolder
