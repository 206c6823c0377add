#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backend/backend.h"
#include "backend/rel_path.h"
#include "base/result.h"
#include "base/uuid.h"
#include "metrics/metrics.h"
#include "vfolder/principal.h"
#include "vfolder/vfolders.h"

namespace onggi::vfolder {

struct ArchivesOptions {
  std::uint64_t entries_max = 10'000'000;
  std::uint64_t file_bytes_max = std::uint64_t{16} << 40;
  std::uint64_t total_bytes_max = std::uint64_t{64} << 40;
};

struct Extracted {
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t size_bytes = 0;
};

// A tar archive on its way in, the shape of an HTTP sink. Each file is whole or absent at any
// moment; all are durable once finish() returns. An abandoned or broken archive leaves some of the
// files that were complete. One thread at a time.
class ExtractSession {
 public:
  virtual ~ExtractSession() = default;
  virtual std::span<std::byte> buffer() = 0;
  // invalid_argument, naming the entry, for a malformed archive, a link or an unsafe path.
  virtual Status commit(std::size_t bytes) = 0;
  // corruption when the checksum differs: then some files may hold what was not sent.
  virtual Result<Extracted> finish() = 0;
  virtual void abandon() = 0;
};

// A tree on its way out as tar (ustar with pax headers). Symbolic links are left out. One thread at
// a time, but for cancel().
class ArchiveStream {
 public:
  virtual ~ArchiveStream() = default;
  // Valid until the next call; empty at the end.
  virtual Result<std::span<const std::byte>> next() = 0;
  virtual void cancel() = 0;
};

// Many small files as one request. Thread-safe.
class Archives {
 public:
  Archives(VFolders& vfolders, metrics::Registry& metrics, ArchivesOptions options = {});

  // `xxh3`: of the archive's bytes, verified at its end.
  Result<std::unique_ptr<ExtractSession>> extract(const Principal& caller, const Uuid& vfolder,
                                                  const backend::RelPath& path,
                                                  std::optional<std::uint64_t> xxh3 = {});
  Result<std::unique_ptr<ArchiveStream>> archive(const Principal& caller, const Uuid& vfolder,
                                                 const backend::RelPath& path);

 private:
  VFolders& vfolders_;
  const ArchivesOptions options_;
  metrics::Counter& received_;
};

}  // namespace onggi::vfolder
