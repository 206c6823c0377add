#pragma once

#include <string>

#include "base/result.h"
#include "catalog/sqlite/database.h"

namespace onggi::catalog {

// Checks that the database is ours, sound and not newer than this program, and brings it to the
// present schema in one transaction. `path` is for messages.
Status prepare_schema(Connection& connection, const std::string& path);

}  // namespace onggi::catalog
