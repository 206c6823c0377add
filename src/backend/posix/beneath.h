#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>

#include "backend/backend.h"
#include "backend/rel_path.h"
#include "base/file_descriptor.h"
#include "base/result.h"

// The only way to the kernel for paths below a vfolder: openat2(2) with RESOLVE_BENEATH and
// RESOLVE_NO_MAGICLINKS resolves a directory, and *at calls then take a single name in it, never
// following a link.
namespace onggi::backend {

// `flags` as for open(2). A path that leads out, by whatever means, is invalid_argument.
Result<FileDescriptor> open_beneath(int root, const RelPath& path, int flags,
                                    std::uint32_t mode = 0);

// A path's directory, opened, and its last name. The root itself has no name: invalid_argument.
struct Place {
  FileDescriptor directory;
  std::string name;
};
Result<Place> open_parent(int root, const RelPath& path);

// Makes the directories of `path` that are missing, mode 0775 whatever the umask, and returns the
// last one, opened. With `durable` each new name is fsynced.
Result<FileDescriptor> make_directories(int root, const RelPath& path, bool durable);

// The name itself, not what a link points to.
Result<FileInfo> stat_name(int directory, const std::string& name);
Result<FileInfo> stat_descriptor(int fd);

Status sync_descriptor(int fd);

// Removes a directory's content, or a whole tree. Never follows a link; makes directories that are
// not accessible accessible first.
Status remove_content(int directory);
Status remove_tree(int parent, const std::string& name);

}  // namespace onggi::backend
