#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
// `flags` are O_PATH, or O_RDONLY where the directory is to be synced too.
Result<Place> open_parent(int root, const RelPath& path, int flags);

// Makes the directories of `path` that are missing, mode 0775 whatever the umask, and returns the
// last one, opened for reading. With `durable` each new name is fsynced.
Result<FileDescriptor> make_directories(int root, const RelPath& path, bool durable);

// Makes one directory and returns it, opened for reading.
Result<FileDescriptor> make_directory(int parent, const std::string& name, std::uint32_t mode);

// The name itself, not what a link points to.
Result<FileInfo> stat_name(int directory, const std::string& name);
Result<FileInfo> stat_descriptor(int fd);

// Renames, replacing what has that name; conflict between a file and a directory.
Status rename_over(const Place& from, const Place& to);
// Renames, unless something has that name: already_exists.
Status rename_to_new(const Place& from, const Place& to);
// The same where the file system has no RENAME_NOREPLACE (NFS): atomic for files, by a hard link;
// a directory is looked for first.
Status rename_to_new_by_link(const Place& from, const Place& to);

// Fewer than buffer.size() bytes only at the end of the file.
Result<std::size_t> read_at(int fd, std::uint64_t offset, std::span<std::byte> buffer);

Status sync_descriptor(int fd);

}  // namespace onggi::backend
