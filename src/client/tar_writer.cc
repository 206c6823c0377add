#include "client/tar_writer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace onggi::client {

namespace {

constexpr std::size_t kBlockBytes = 512;
constexpr std::uint64_t kSizeMax = 077777777777;  // 11 octal digits
constexpr std::size_t kNameBytes = 100;
constexpr std::size_t kPrefixBytes = 155;

// POSIX.1-1988 ustar, byte for byte.
using Header = std::array<char, kBlockBytes>;

void put_text(Header& header, std::size_t at, std::string_view text) {
  std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(at));
}

void put_octal(Header& header, std::size_t at, std::size_t width, std::uint64_t value) {
  put_text(header, at, fmt::format("{:0{}o}", value, width - 1));
}

// Where to cut `path` so that both parts fit; npos when there is no such slash.
std::size_t find_cut(std::string_view path) {
  if (path.size() <= kNameBytes) return 0;
  for (std::size_t at = path.find('/'); at != std::string_view::npos; at = path.find('/', at + 1)) {
    const bool fits = at > 0 && at <= kPrefixBytes && path.size() - at - 1 <= kNameBytes;
    if (fits && at + 1 < path.size()) return at;
  }
  return std::string_view::npos;
}

Header make_header(std::string_view name, std::string_view prefix, char type, std::uint64_t size,
                   std::int64_t modified) {
  Header header{};
  put_text(header, 0, name);
  put_octal(header, 100, 8, type == '5' ? 0755 : 0644);
  put_octal(header, 108, 8, 0);
  put_octal(header, 116, 8, 0);
  put_octal(header, 124, 12, size);
  put_octal(header, 136, 12,
            std::min(kSizeMax, static_cast<std::uint64_t>(std::max<std::int64_t>(0, modified))));
  put_text(header, 148, "        ");
  header[156] = type;
  put_text(header, 257, std::string_view("ustar\00000", 8));
  put_text(header, 345, prefix);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put_text(header, 148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  return header;
}

// "<length> path=<path>\n", where the length counts its own digits.
std::string pax_record(std::string_view path) {
  const std::size_t rest = std::string_view(" path=\n").size() + path.size();
  std::size_t length = rest + 1;
  while (fmt::formatted_size("{}", length) + rest != length) {
    length = fmt::formatted_size("{}", length) + rest;
  }
  return fmt::format("{} path={}\n", length, path);
}

std::size_t padded(std::size_t size) {
  return (size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

}  // namespace

Status TarWriter::add_header(std::string_view path, char type, std::uint64_t size,
                             std::int64_t modified) {
  if (size > kSizeMax) return fail(ErrorCode::invalid_argument, "too large for a tar header");
  const std::size_t cut = find_cut(path);
  std::string_view name = path;
  std::string_view prefix;
  if (cut == std::string_view::npos) {
    const std::string record = pax_record(path);
    const Header header = make_header("././@PaxHeader", "", 'x', record.size(), 0);
    append(bytes_, std::as_bytes(std::span(header)));
    append(bytes_, std::as_bytes(std::span(record)));
    bytes_.resize(padded(bytes_.size()));
    name = path.substr(0, kNameBytes);
  } else if (cut > 0) {
    prefix = path.substr(0, cut);
    name = path.substr(cut + 1);
  }
  const Header header = make_header(name, prefix, type, size, modified);
  append(bytes_, std::as_bytes(std::span(header)));
  return {};
}

Result<std::span<std::byte>> TarWriter::add_file(std::string_view path, std::uint64_t size,
                                                 std::int64_t modified_seconds) {
  last_at_ = bytes_.size();
  RETURN_IF_ERROR(add_header(path, '0', size, modified_seconds));
  const std::size_t at = bytes_.size();
  bytes_.resize(at + padded(size));
  ++files_;
  return std::span(bytes_).subspan(at, size);
}

Status TarWriter::add_directory(std::string_view path) {
  return add_header(fmt::format("{}/", path), '5', 0, 0);
}

void TarWriter::drop_last() {
  bytes_.resize(last_at_);
  --files_;
}

std::span<const std::byte> TarWriter::finish() {
  bytes_.resize(bytes_.size() + 2 * kBlockBytes);
  return bytes_;
}

}  // namespace onggi::client
