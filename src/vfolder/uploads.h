#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/rel_path.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"
#include "catalog/catalog.h"
#include "metrics/metrics.h"
#include "vfolder/principal.h"
#include "vfolder/vfolders.h"

namespace onggi::vfolder {

struct UploadsOptions {
  std::uint64_t length_max = std::uint64_t{16} << 40;  // Tus-Max-Size
  std::chrono::seconds expiry{24 * 3600};              // since the last progress, roughly
  std::chrono::seconds remembered{3600};  // how long a finished one still answers HEAD and PATCH
  std::size_t per_vfolder_max = 10000;    // unfinished ones
};

struct UploadRequest {
  Uuid vfolder;
  backend::RelPath path;
  std::uint64_t length = 0;
  std::optional<std::uint64_t> xxh3;  // of the whole, verified before commit
  std::optional<std::string> if_etag;
  bool if_absent = false;
  std::optional<Uuid> id;  // a transfer token's; random unless given. already_exists when repeated
};

struct UploadStatus {
  Uuid id;
  Uuid vfolder;
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  UnixTime expires{};
  std::optional<std::string> etag;  // set once committed (offset == length)
};

enum class ChecksumAlgorithm : std::uint8_t { sha1, xxh3 };

// Of one PATCH body, as in Upload-Checksum: the raw digest (20 bytes; 8 bytes big-endian).
struct ChunkChecksum {
  ChecksumAlgorithm algorithm = ChecksumAlgorithm::xxh3;
  std::string digest;
};

struct AppendOptions {
  std::uint64_t offset = 0;  // must be the upload's own
  std::optional<ChunkChecksum> checksum;
  std::optional<std::uint64_t> length;  // of the body, when known: refused early when too long
};

// One PATCH body on its way in, the shape of an HTTP sink. Holds the upload's lock until finished,
// abandoned or destroyed. Abandoned, or destroyed unfinished, it keeps the bytes that came (with a
// checksum it drops them, since they cannot be verified). One thread at a time.
class AppendSession {
 public:
  virtual ~AppendSession() = default;
  virtual std::span<std::byte> buffer() = 0;
  // too_large when the upload's length is passed; the bytes up to here stay.
  virtual Status commit(std::size_t bytes) = 0;
  // Makes the bytes durable and says where the upload stands; at its length it is committed and
  // `etag` set. corruption when a checksum differs: of the chunk, which is then dropped; of the
  // whole, and the upload is then removed.
  virtual Result<UploadStatus> finish() = 0;
  virtual void abandon() = 0;
};

// Resumable uploads (TUS 1.0.0). An upload outlives the daemon: its session is in the catalog, its
// bytes in a staging file whose size is the offset. Thread-safe; the references must outlive it and
// its sessions must not.
class Uploads {
 public:
  Uploads(catalog::Catalog& catalog, VFolders& vfolders, Clock& clock, metrics::Registry& metrics,
          UploadsOptions options = {});
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  Uploads(Uploads&&) = delete;
  Uploads& operator=(Uploads&&) = delete;

  const UploadsOptions& options() const { return options_; }

  // A zero-length upload is committed at once.
  Result<UploadStatus> create(const Principal& caller, const UploadRequest& request);
  Result<UploadStatus> status(const Principal& caller, const Uuid& id);
  // conflict when another session is on, or when the offset is not the upload's; too_large.
  Result<std::unique_ptr<AppendSession>> append(const Principal& caller, const Uuid& id,
                                                const AppendOptions& options);
  Status terminate(const Principal& caller, const Uuid& id);

  // Removes sessions past their time with their staging files; returns how many. For recovery.
  Result<std::size_t> remove_expired();
  // Forgets the sessions of `vfolder` that have no staging file: the daemon died between committing
  // one and noting it. For recovery at start, when no session is on.
  Status forget_lost(const catalog::VFolder& vfolder);

 private:
  class Locks;
  class Lock;
  class Session;
  struct Opened;

  // The row, its folder after the permission check, and not_found for whatever is not there for
  // the caller.
  Result<Opened> open(const Principal& caller, const Uuid& id);
  UploadStatus status_of(const catalog::Upload& upload, std::uint64_t offset) const;
  Status check_request(const UploadRequest& request);
  Result<UploadStatus> commit_empty(backend::StagedFile& staged, catalog::Upload upload);
  Result<bool> remove_if_idle(const catalog::Upload& upload);

  catalog::Catalog& catalog_;
  VFolders& vfolders_;
  Clock& clock_;
  const UploadsOptions options_;
  metrics::Counter& received_;
  std::unique_ptr<Locks> locks_;
};

}  // namespace onggi::vfolder
