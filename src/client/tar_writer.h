#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace onggi::client {

// A tar archive (ustar; pax headers for names that do not fit) built in memory.
class TarWriter {
 public:
  // Adds a file of `size` bytes and returns where they go: fill before the next call.
  // invalid_argument for sizes that do not fit in a header.
  Result<std::span<std::byte>> add_file(std::string_view path, std::uint64_t size,
                                        std::int64_t modified_seconds);
  Status add_directory(std::string_view path);
  // Takes back the last file that was added.
  void drop_last();
  // Adds the end of the archive; call once, last.
  std::span<const std::byte> finish();

  std::size_t files() const { return files_; }
  std::size_t size_bytes() const { return bytes_.size(); }

 private:
  Status add_header(std::string_view path, char type, std::uint64_t size, std::int64_t modified);

  std::vector<std::byte> bytes_;
  std::size_t last_at_ = 0;
  std::size_t files_ = 0;
};

}  // namespace onggi::client
