#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/rel_path.h"
#include "base/checksum.h"
#include "base/result.h"
#include "base/uuid.h"
#include "metrics/metrics.h"
#include "vfolder/principal.h"
#include "vfolder/vfolders.h"

namespace onggi::vfolder {

struct ListRequest {
  bool recursive = false;
  std::string cursor;
  std::size_t limit = 1000;  // 1 to 10,000
};

struct EntryPage {
  std::vector<backend::Entry> items;  // paths relative to the listed directory
  std::string next_cursor;            // empty on the last page
};

// A file open for reading. Keeps its vfolder open; destroyed in the right order.
struct OpenFile {
  std::shared_ptr<backend::Folder> folder;
  std::unique_ptr<backend::ReadHandle> handle;
};

struct WriteOptions {
  std::uint64_t size_hint = 0;         // Content-Length, when known
  std::optional<std::uint64_t> xxh3;   // must match before anything is committed
  std::optional<std::string> if_etag;  // replace only this version
  bool if_absent = false;
  bool durable = true;
};

struct Written {
  backend::FileInfo info;
  bool created = false;  // false: an older file was replaced
};

// A whole file on its way in. The shape of an HTTP sink: read into buffer(), commit() the count,
// finish(). Nothing is visible before finish() succeeds; whatever else happens leaves the old file
// and no staging. One thread at a time.
class WriteSession {
 public:
  WriteSession(std::shared_ptr<backend::Folder> folder, std::unique_ptr<backend::StagedFile> staged,
               backend::RelPath path, WriteOptions options, metrics::Counter& received);
  ~WriteSession();
  WriteSession(const WriteSession&) = delete;
  WriteSession& operator=(const WriteSession&) = delete;
  WriteSession(WriteSession&&) = delete;
  WriteSession& operator=(WriteSession&&) = delete;

  std::span<std::byte> buffer();
  Status commit(std::size_t bytes);
  // corruption when the checksum differs, condition_failed when a precondition does.
  Result<Written> finish();
  void abandon();

 private:
  std::shared_ptr<backend::Folder> folder_;  // outlives staged_
  std::unique_ptr<backend::StagedFile> staged_;
  const backend::RelPath path_;
  const WriteOptions options_;
  Xxh3 checksum_;
  std::span<std::byte> buffer_;
  metrics::Counter& received_;
};

// Files and directories of vfolders, each call after its permission check. Thread-safe.
class Files {
 public:
  Files(VFolders& vfolders, metrics::Registry& metrics);

  Result<backend::FileInfo> stat(const Principal& caller, const Uuid& vfolder,
                                 const backend::RelPath& path);
  Result<EntryPage> list(const Principal& caller, const Uuid& vfolder, const backend::RelPath& path,
                         const ListRequest& request);
  Result<OpenFile> open(const Principal& caller, const Uuid& vfolder, const backend::RelPath& path);
  Result<std::unique_ptr<WriteSession>> write(const Principal& caller, const Uuid& vfolder,
                                              const backend::RelPath& path,
                                              const WriteOptions& options);
  Result<backend::FileInfo> make_directory(const Principal& caller, const Uuid& vfolder,
                                           const backend::RelPath& path, bool parents);
  Result<backend::FileInfo> move(const Principal& caller, const Uuid& vfolder,
                                 const backend::RelPath& from, const backend::RelPath& to,
                                 const backend::MoveOptions& options);
  Status remove(const Principal& caller, const Uuid& vfolder, const backend::RelPath& path,
                bool recursive);

 private:
  VFolders& vfolders_;
  metrics::Counter& received_;
};

}  // namespace onggi::vfolder
