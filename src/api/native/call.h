#pragma once

#include "base/result.h"
#include "http/message.h"
#include "vfolder/principal.h"

namespace onggi::api {

// Who may call an operation: anybody, anybody with a token, administrators.
enum class Access : std::uint8_t { open, tenant, admin };

// One request on its way through a handler. Lives as long as the handler's call, no longer.
struct Call {
  http::Request& request;
  vfolder::Principal caller;  // nobody's for Access::open
};

// The one place where callers are let in. Thread-safe.
class Gatekeeper {
 public:
  virtual ~Gatekeeper() = default;
  // unauthenticated or permission_denied for whoever is not let in.
  virtual Result<vfolder::Principal> authorize(const http::Request& request, Access access) = 0;
};

}  // namespace onggi::api
