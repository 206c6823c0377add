#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/rel_path.h"
#include "base/clock.h"
#include "base/result.h"

namespace onggi::vfolder {

constexpr std::size_t kTarBlock = 512;

struct TarLimits {
  std::uint64_t entries_max = 10'000'000;
  std::uint64_t file_bytes_max = std::uint64_t{16} << 40;
  std::uint64_t total_bytes_max = std::uint64_t{64} << 40;
  std::size_t header_bytes_max = std::size_t{1} << 20;  // of one pax or long-name header
};

// What a tar archive holds, told as it is read. An error ends the reading and is what feed()
// returns.
class TarHandler {
 public:
  virtual ~TarHandler() = default;
  virtual Status directory(const backend::RelPath& path) = 0;
  virtual Status begin_file(const backend::RelPath& path, std::uint64_t size) = 0;
  virtual Status data(std::span<const std::byte> bytes) = 0;
  virtual Status end_file() = 0;
};

// Reads tar as it arrives: ustar, pax (path, size) and GNU long names; regular files and
// directories. Links of any kind, devices and sparse files are refused by name: nothing that could
// point out of a vfolder gets in. Every number is checked. One thread at a time.
class TarReader {
 public:
  explicit TarReader(TarHandler& handler, TarLimits limits = {})
      : handler_(handler), limits_(limits) {}

  // invalid_argument naming the fault, too_large past a limit, or the handler's error. No call may
  // follow an error.
  Status feed(std::span<const std::byte> bytes);
  // The input is over; invalid_argument when the archive isn't.
  Status finish() const;

 private:
  enum class State : std::uint8_t { header, data, extension, skip, padding, end };

  static Status check_trailer(std::span<const std::byte> bytes);
  Status fill_header(std::span<const std::byte>& bytes);
  Status take_header();
  Status start_entry(std::string_view block, char type);
  Status start_file(const backend::RelPath& path, std::uint64_t size);
  Status start_extension(char type, std::uint64_t size);
  Status end_extension();
  Status parse_pax(std::string_view records);
  Status apply_pax(std::string_view key, std::string_view value);
  Status end_body();
  Status take_body(std::span<const std::byte>& bytes);
  void enter_body(State state, std::uint64_t size);
  std::string entry_name(std::string_view block) const;

  TarHandler& handler_;
  const TarLimits limits_;
  State state_ = State::header;
  std::array<char, kTarBlock> block_{};
  std::size_t filled_ = 0;       // of block_
  std::uint64_t remaining_ = 0;  // of the body or padding
  std::size_t pad_ = 0;          // after the body
  bool zero_block_ = false;      // one seen; the second ends the archive
  std::uint64_t entries_ = 0;
  std::uint64_t total_bytes_ = 0;
  char extension_type_ = 0;
  std::string extension_;
  // Of the next entry, from pax or GNU headers.
  std::optional<std::string> next_path_;
  std::optional<std::uint64_t> next_size_;
};

struct TarMember {
  std::string path;  // a directory's without '/'
  bool directory = false;
  std::uint64_t size = 0;
  std::uint32_t mode = 0;
  UnixTime modified{};
};

// The header blocks of `member`: ustar, preceded by a pax header where that cannot say it.
std::string tar_header(const TarMember& member);

}  // namespace onggi::vfolder
