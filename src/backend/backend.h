#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/rel_path.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/uuid.h"

namespace onggi::backend {

// What a backend can do beyond the least. Callers ask this, never which backend it is.
struct Capabilities {
  bool quota = false;
  bool usage = false;  // the system itself counts; otherwise usage() walks
  bool clone = false;  // by reflink, snapshot or server-side copy
  bool snapshot = false;
  bool metrics = false;
  bool direct = false;   // files can be opened by path on this host
  bool durable = false;  // survives a restart of the daemon (memory does not)
  bool remote = false;   // another machine serves it: a call may hang as long as that is silent
};

// A vfolder's address within a volume. On disk (Backend.AI's layout, version 3):
// <root>/<scope hex>/<id hex[0:2]>/<id hex[2:4]>/<id hex[4:32]>.
struct FolderId {
  Uuid quota_scope;
  Uuid id;
  auto operator<=>(const FolderId&) const = default;
};

enum class FileKind : std::uint8_t { file, directory, symlink, other };

struct FileInfo {
  FileKind kind = FileKind::file;
  std::uint64_t size_bytes = 0;
  UnixTime modified{};
  // Of content and of the inode (mtime, ctime), in nanoseconds since the Unix epoch, as fine as the
  // system keeps them.
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  std::uint32_t mode = 0;
  std::string etag;  // changes whenever the content may have: inode, size, mtime_ns, ctime_ns
};

struct Entry {
  std::string path;  // relative to the listed directory; "a/b" only when listing recursively
  FileInfo info;
};

struct ListOptions {
  std::string after;  // exclusive: entries whose path sorts after this; empty for the first page
  std::size_t limit = 1000;
  bool recursive = false;  // symbolic links are listed, never entered
};

// Sorted by path, bytewise (recursively: by path as a whole). `more` when the page was cut.
struct ListPage {
  std::vector<Entry> entries;
  bool more = false;
};

struct Usage {
  std::uint64_t size_bytes = 0;       // sum of file sizes; a file with several links counts once
  std::uint64_t allocated_bytes = 0;  // blocks on disk
  std::uint64_t files = 0;
  std::uint64_t directories = 0;  // without the root
  std::uint64_t symlinks = 0;
  // What the tree itself takes, as stat(2) counts it; 0 where the system does not say. With the
  // files' the blocks are what du(1) shows.
  std::uint64_t directory_bytes = 0;  // without the root
  std::uint64_t symlink_bytes = 0;
  std::uint64_t structure_allocated_bytes = 0;  // directories, the root too, and symlinks
};

struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t inodes_total = 0;
  std::uint64_t inodes_available = 0;
};

// An open regular file. `file` is set when the bytes can be moved by the kernel; else use read().
class ReadHandle {
 public:
  virtual ~ReadHandle() = default;
  virtual const FileInfo& info() const = 0;
  // Reads at most buffer.size() bytes at `offset`; fewer only at end of file.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) = 0;
  // A descriptor of the file for sendfile; none where there is no such thing (memory, s3).
  virtual std::optional<int> descriptor() const { return std::nullopt; }
};

struct CommitOptions {
  std::optional<std::string> if_etag;  // replace only this version
  bool if_absent = false;              // create only
  bool create_parents = true;
  bool durable = true;  // fsync file and directory before returning
};

// A file being written, invisible until committed. On a posix backend it lies in the vfolder's
// ".upload/<id hex>", so commit is one rename. One thread at a time. The destructor keeps the
// staging file (an upload may be resumed); discard() removes it.
class StagedFile {
 public:
  virtual ~StagedFile() = default;
  virtual std::uint64_t size() const = 0;
  // Space for the next bytes and their acceptance: the zero-copy way to append. Direct I/O with
  // aligned buffers inside, when the backend has it and `size_hint` was large.
  virtual std::span<std::byte> buffer() = 0;
  virtual Status commit_buffer(std::size_t bytes) = 0;
  // Makes all bytes so far durable and visible to a later resume.
  virtual Status flush() = 0;
  // Reads what lies at `offset`, counting bytes not yet flushed; fewer only at the end. For the
  // checksum of an upload that was resumed.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) = 0;
  // Drops the bytes from `size` on: a part that failed its checksum.
  virtual Status truncate(std::uint64_t size) = 0;
  // Gives the file its name. Called again, with the same arguments, it finishes or confirms what an
  // earlier call did: safe to try again when the answer was lost.
  virtual Result<FileInfo> commit(const RelPath& path, const CommitOptions& options) = 0;
  virtual Status discard() = 0;
};

struct MoveOptions {
  bool replace = false;
  bool create_parents = true;
};

// One open vfolder: the containment boundary. No operation reaches anything outside, whatever the
// paths and links inside (posix: openat2 with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS; links as
// data). Thread-safe.
class Folder {
 public:
  virtual ~Folder() = default;
  virtual Result<FileInfo> stat(const RelPath& path) = 0;
  virtual Result<ListPage> list(const RelPath& path, const ListOptions& options) = 0;
  virtual Result<std::unique_ptr<ReadHandle>> open(const RelPath& path) = 0;
  // Opens the staging file `upload`, creating it when `create`. `size_hint` is the final size if
  // known: it chooses direct I/O and preallocation.
  virtual Result<std::unique_ptr<StagedFile>> stage(const Uuid& upload, bool create,
                                                    std::uint64_t size_hint) = 0;
  virtual Status make_directory(const RelPath& path, bool parents) = 0;
  virtual Status move(const RelPath& from, const RelPath& to, const MoveOptions& options) = 0;
  // conflict when a directory is not empty and not `recursive`. A tree vanishes as one.
  virtual Status remove(const RelPath& path, bool recursive) = 0;
  virtual Result<Usage> usage() = 0;
  // Makes everything written so far durable with one call (syncfs), after commits and directories
  // made with `durable` off.
  virtual Status sync() = 0;
  // Removes staging files other than `keep` that nobody has touched since `before`, and what a
  // recursive removal left there.
  virtual Result<std::size_t> collect_staging(const std::vector<Uuid>& keep, UnixTime before) = 0;
  // A descriptor of the folder's directory, to mount it elsewhere; none without
  // Capabilities::direct.
  virtual std::optional<int> descriptor() const { return std::nullopt; }
};

// The driver of one storage system, seen as a volume. Does one attempt of one thing: retries,
// time-outs, limits and metrics are layers (backend/layers). Thread-safe; calls block.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Capabilities capabilities() const = 0;
  virtual Result<Space> space() = 0;
  // already_exists when there. Creates the quota scope's directory when missing.
  virtual Status create_folder(const FolderId& id, std::uint32_t mode) = 0;
  virtual Result<std::unique_ptr<Folder>> open_folder(const FolderId& id) = 0;
  // Removes the folder and everything in it, then its shard directories when empty. Atomic to
  // observers: the folder is renamed away first. not_found when absent.
  virtual Status remove_folder(const FolderId& id) = 0;
  virtual Result<std::vector<FolderId>> list_folders() = 0;
  // Finishes what a crash left: folders renamed away by remove_folder.
  virtual Status recover() = 0;
};

// How a backend is named and configured: `options` are the keys of its section ("path" for posix).
struct BackendSpec {
  std::string backend;
  std::map<std::string, std::string> options;
};

}  // namespace onggi::backend
