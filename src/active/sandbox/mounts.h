#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace onggi::active {

// A detached mount of the directory `directory` that nobody can write through, follow devices or
// set-id programs in. `owner_map`, a user namespace or -1, makes files of the daemon's own appear
// as the worker's. Needs CAP_SYS_ADMIN.
Result<FileDescriptor> clone_read_only_mount(int directory, int owner_map = -1);

// A user namespace that maps the owner of `directory` to `uid`, for clone_read_only_mount. The
// calling process must have one thread.
Result<FileDescriptor> make_owner_map(int directory, std::uint32_t uid);

// Makes a root of its own for this process out of `binds` (paths that appear read-only at the same
// place; missing ones are skipped), with a minimal /dev, a /proc of its pid namespace, and nothing
// else. Ends inside it. Needs a new mount namespace and the rights over it. With `keep_old` the
// former root stays at /.old until drop_old_root().
Status build_root(const std::vector<std::string>& binds, bool keep_old);
Status drop_old_root();

// Attaches a mount at `path`, making the directories that lead there.
Status attach_mount(int mount, const std::string& path);
// For daemons without rights to mount: binds what `directory` names in the former root.
Status attach_by_name(int directory, const std::string& path);

// A /tmp of its own for `uid`, `bytes` large.
Status mount_tmp(std::uint32_t uid, std::uint64_t bytes);

// Makes directories down to `path` where there are none.
Status make_directories(const std::string& path);

// Nothing can be made in the root any more, only in /tmp.
Status seal_root();

}  // namespace onggi::active
