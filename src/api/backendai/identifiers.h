#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/rel_path.h"
#include "base/result.h"
#include "base/uuid.h"

// How Backend.AI's managers name things (contract of backend.ai-storage-proxy 26.9). Errors carry
// the words that its own proxy answers with, since clients show them.
namespace onggi::api::backendai {

// "user:<uuid>" or "project:<uuid>": whose quota a folder counts against. The type is not part of
// the path on disk.
struct QuotaScopeId {
  std::string type;  // "user" or "project"
  Uuid id;

  // invalid_argument for anything else. The type's case does not matter.
  static Result<QuotaScopeId> parse(std::string_view text);
  std::string to_string() const;  // the UUID with dashes
};

// "<quota scope>/<uuid>", or the UUID alone as managers before quota scopes sent it.
struct VFolderId {
  std::optional<QuotaScopeId> quota_scope;
  Uuid folder;

  static Result<VFolderId> parse(std::string_view text);
  // "user:<uuid with dashes>/<32 hexadecimal digits>", as replies, tokens and events have it.
  std::string to_string() const;
  // Where it lies. invalid_argument without a quota scope: that is the layout of version 2, which
  // no volume of version 3 has.
  Result<backend::FolderId> address() const;
};

// A path as PurePosixPath keeps it: empty and "." segments fall away, ".." stays; "." when nothing
// is left. invalid_argument when absolute.
Result<std::string> normal_path(std::string_view text);

// The normal path as one below the vfolder: ".." takes a segment away. invalid_argument when it
// leads out, or when RelPath refuses it.
Result<backend::RelPath> contained_path(std::string_view normal);

}  // namespace onggi::api::backendai
