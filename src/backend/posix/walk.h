#pragma once

#include "backend/backend.h"
#include "backend/rel_path.h"
#include "base/result.h"

namespace onggi::backend {

// One page of the directory `path` below `root`, which is not shown its ".upload".
Result<ListPage> list_directory(int root, const RelPath& path, const ListOptions& options);

// Counts everything below `root` but ".upload".
Result<Usage> count_usage(int root);

// The name of the staging directory at the top of each vfolder, as in Backend.AI's layout.
inline constexpr const char* kStagingDirectory = ".upload";

}  // namespace onggi::backend
