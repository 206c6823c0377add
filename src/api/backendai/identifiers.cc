#include "api/backendai/identifiers.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/encoding.h"

namespace onggi::api::backendai {
namespace {

constexpr std::string_view kScopePattern =
    "^[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*:[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*$";

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Groups of letters and digits, joined by single '_' or '-'.
bool is_word(std::string_view text) {
  bool joined = true;  // a joint may not come here
  for (const char c : text) {
    const bool joint = c == '_' || c == '-';
    if (joint ? joined : !is_alphanumeric(c)) return false;
    joined = joint;
  }
  return !joined;
}

tl::unexpected<Error> no_uuid() {
  return fail(ErrorCode::invalid_argument, "cannot convert value to UUID");
}

std::vector<std::string_view> segments(std::string_view path) {
  std::vector<std::string_view> out;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, slash);
    if (!segment.empty() && segment != ".") out.push_back(segment);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return out;
}

}  // namespace

Result<QuotaScopeId> QuotaScopeId::parse(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (colon == text.size() || !is_word(text.substr(0, colon)) || !is_word(text.substr(colon + 1))) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("does not match pattern {}", kScopePattern));
  }
  QuotaScopeId scope;
  scope.type = ascii_lower(text.substr(0, colon));
  if (scope.type != "user" && scope.type != "project") {
    return fail(ErrorCode::invalid_argument,
                fmt::format("Invalid quota scope type: '{}'", text.substr(0, colon)));
  }
  const auto id = Uuid::parse(text.substr(colon + 1));
  if (!id) return no_uuid();
  scope.id = *id;
  return scope;
}

std::string QuotaScopeId::to_string() const {
  return fmt::format("{}:{}", type, id.to_string());
}

Result<VFolderId> VFolderId::parse(std::string_view text) {
  VFolderId out;
  const std::size_t slash = text.find('/');
  const bool scoped = slash != std::string_view::npos && slash + 1 < text.size();
  if (scoped) {
    ASSIGN_OR_RETURN(out.quota_scope, QuotaScopeId::parse(text.substr(0, slash)));
  }
  const auto folder = Uuid::parse(scoped ? text.substr(slash + 1) : text.substr(0, slash));
  if (!folder) return no_uuid();
  out.folder = *folder;
  return out;
}

std::string VFolderId::to_string() const {
  return quota_scope ? fmt::format("{}/{}", quota_scope->to_string(), folder.hex()) : folder.hex();
}

Result<backend::FolderId> VFolderId::address() const {
  if (!quota_scope) {
    return fail(ErrorCode::invalid_argument, "quota_scope_id is required for vfid");
  }
  return backend::FolderId{.quota_scope = quota_scope->id, .id = folder};
}

Result<std::string> normal_path(std::string_view text) {
  if (text.starts_with('/')) {
    return fail(ErrorCode::invalid_argument, "expected relative path but the value is absolute");
  }
  const auto parts = segments(text);
  return parts.empty() ? "." : fmt::format("{}", fmt::join(parts, "/"));
}

Result<backend::RelPath> contained_path(std::string_view normal) {
  std::vector<std::string_view> kept;
  for (const std::string_view segment : segments(normal)) {
    if (segment != "..") {
      kept.push_back(segment);
    } else if (kept.empty()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' leads out of the vfolder", normal));
    } else {
      kept.pop_back();
    }
  }
  return backend::RelPath::parse(fmt::format("{}", fmt::join(kept, "/")));
}

}  // namespace onggi::api::backendai
