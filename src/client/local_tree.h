#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/http_client.h"

namespace onggi::client {

struct LocalFile {
  std::string path;  // from the root, with slashes
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ms = 0;
};

struct LocalTree {
  std::vector<LocalFile> files;                // by path
  std::vector<std::string> empty_directories;  // by path
  std::vector<std::string> warnings;           // what was left out and why
};

// Walks what is below `root`. Symbolic links and special files are left out with a warning, as are
// directories that cannot be read. Our own unfinished downloads are left out silently.
Result<LocalTree> walk_tree(const std::string& root, const CancelCheck& cancelled = {});

// Below a downloaded file's final name until it is complete.
inline constexpr std::string_view kPartSuffix = ".onggi-part";

}  // namespace onggi::client
