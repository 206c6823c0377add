#pragma once

#include <string>

#include "base/uuid.h"
#include "catalog/records.h"

namespace onggi::vfolder {

// Who asks. An admin manages tenants, tokens and volumes of the whole node; over data it has no
// more rights than its tenant.
struct Principal {
  Uuid tenant;
  catalog::Scope scope = catalog::Scope::tenant;
  std::string token_id;  // "local" over the Unix socket, "transfer:<jti>" for a transfer token

  bool is_admin() const { return scope == catalog::Scope::admin; }
};

}  // namespace onggi::vfolder
