#include <string_view>

#include "api/native/native_api.h"

namespace onggi::api {

Result<vfolder::Principal> NativeApi::authorize(const http::Request& request, Access access) {
  if (access == Access::open) return vfolder::Principal{};
  const std::optional<std::string_view> header = request.headers.get("Authorization");
  Result<vfolder::Principal> caller =
      fail(ErrorCode::unauthenticated, "a token is needed: Authorization: Bearer onggi_…");
  if (header) {
    // The scheme's name has no case (RFC 9110 §11.1).
    constexpr std::string_view kScheme = "bearer ";
    const bool bearer = header->size() > kScheme.size() &&
                        std::equal(kScheme.begin(), kScheme.end(), header->begin(),
                                   [](char a, char b) { return a == (b == ' ' ? b : (b | 0x20)); });
    if (bearer) caller = services_.authority.authenticate(header->substr(kScheme.size()));
  } else if (request.peer.uid &&
             (*request.peer.uid == 0 || *request.peer.uid == options_.trusted_uid)) {
    caller = services_.authority.local_admin();
  }
  if (caller && access == Access::admin && !caller->is_admin()) {
    return fail(ErrorCode::permission_denied, "this needs an administrator's token");
  }
  return caller;
}

}  // namespace onggi::api
