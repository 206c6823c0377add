#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace onggi::io {

struct FileAppenderOptions {
  // The size the file will have: from `direct_bytes_min` on, space is reserved at once and the
  // bytes go around the page cache. 0: not known; they do so once that many have come.
  std::uint64_t size_hint = 0;
  std::uint64_t direct_bytes_min = 8ULL << 20;
};

// Appends a long byte stream to a file near the speed of the disk. The caller fills buffer() and
// advance()s, so that a socket can be read straight into it. Large files are written with O_DIRECT
// by a thread of their own while the next buffer fills; small ones, and those on file systems
// without direct I/O (tmpfs), go through the page cache. One thread at a time.
class FileAppender {
 public:
  // `file` is open for reading and writing; bytes are appended after `size`, its length.
  static Result<std::unique_ptr<FileAppender>> open(FileDescriptor file, std::uint64_t size,
                                                    const FileAppenderOptions& options);
  virtual ~FileAppender() = default;

  // Bytes accepted so far, written or not.
  virtual std::uint64_t size() const = 0;
  // At least one byte, valid until the next call.
  virtual std::span<std::byte> buffer() = 0;
  // Takes the first `bytes` of buffer(). storage_full and the like may concern earlier bytes.
  virtual Status advance(std::size_t bytes) = 0;
  // Writes everything accepted to the file; `durable` also waits for the disk (fdatasync).
  virtual Status flush(bool durable) = 0;
  virtual int descriptor() const = 0;
};

}  // namespace onggi::io
