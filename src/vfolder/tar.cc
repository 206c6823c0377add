#include "vfolder/tar.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace onggi::vfolder {
namespace {

struct Field {
  std::size_t offset;
  std::size_t size;
};

constexpr Field kName{.offset = 0, .size = 100};
constexpr Field kMode{.offset = 100, .size = 8};
constexpr Field kUid{.offset = 108, .size = 8};
constexpr Field kGid{.offset = 116, .size = 8};
constexpr Field kSize{.offset = 124, .size = 12};
constexpr Field kMtime{.offset = 136, .size = 12};
constexpr Field kChecksum{.offset = 148, .size = 8};
constexpr std::size_t kType = 156;
constexpr Field kMagic{.offset = 257, .size = 5};
constexpr std::size_t kPosixMark = 262;  // NUL in ustar, a space in old GNU tar
constexpr Field kPrefix{.offset = 345, .size = 155};
constexpr std::uint64_t kOctalSizeMax = 077777777777;

tl::unexpected<Error> malformed(std::string_view why) {
  return fail(ErrorCode::invalid_argument, fmt::format("tar: {}", why));
}

std::string_view slice(std::string_view block, Field field) {
  return block.substr(field.offset, field.size);
}

// Up to the first NUL.
std::string_view text_of(std::string_view field) {
  return field.substr(0, field.find('\0'));
}

// All of `text` as a number; none when it is anything else.
std::optional<std::uint64_t> parse_digits(std::string_view text, int base) {
  std::uint64_t value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, value, base);
  if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_octal(std::string_view field) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  while (!field.empty() && (field.back() == ' ' || field.back() == '\0')) field.remove_suffix(1);
  if (field.empty()) return 0;
  return parse_digits(field, 8);
}

// Octal, or GNU's base-256 (first bit set) when it is not negative and fits.
std::optional<std::uint64_t> parse_number(std::string_view field) {
  const auto first = static_cast<unsigned char>(field.front());
  if ((first & 0x80U) == 0) return parse_octal(field);
  if (first != 0x80U) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : field.substr(1)) {
    if (value >> 56U != 0) return std::nullopt;
    value = value << 8U | static_cast<unsigned char>(c);
  }
  return value;
}

// The sum of all bytes with the checksum field as spaces. Some old writers summed signed bytes.
bool checksum_holds(std::string_view block) {
  const auto stored = parse_octal(slice(block, kChecksum));
  if (!stored) return false;
  std::int64_t as_unsigned = 0;
  std::int64_t as_signed = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool in_field = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    const auto byte = static_cast<unsigned char>(in_field ? ' ' : block[i]);
    as_unsigned += byte;
    as_signed += byte < 128 ? byte : byte - 256;
  }
  const auto wanted = static_cast<std::int64_t>(*stored & 0xffffffffU);
  return wanted == as_unsigned || wanted == as_signed;
}

std::size_t padding_of(std::uint64_t size) {
  return static_cast<std::size_t>((kTarBlock - size % kTarBlock) % kTarBlock);
}

std::string_view type_words(char type) {
  switch (type) {
    case '1':
      return "a hard link";
    case '2':
      return "a symbolic link";
    case '3':
    case '4':
      return "a device";
    case '6':
      return "a pipe";
    case 'S':
      return "a sparse file";
    default:
      return "of a type that is not supported";
  }
}

}  // namespace

Status TarReader::feed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    switch (state_) {
      case State::end:
        return check_trailer(bytes);
      case State::header:
        RETURN_IF_ERROR(fill_header(bytes));
        break;
      default:
        RETURN_IF_ERROR(take_body(bytes));
        break;
    }
  }
  return {};
}

// Writers pad to their record size with zeros.
Status TarReader::check_trailer(std::span<const std::byte> bytes) {
  if (std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) return {};
  return malformed("something follows the end of the archive");
}

Status TarReader::fill_header(std::span<const std::byte>& bytes) {
  const std::size_t count = std::min(bytes.size(), kTarBlock - filled_);
  std::memcpy(block_.data() + filled_, bytes.data(), count);
  filled_ += count;
  bytes = bytes.subspan(count);
  if (filled_ < kTarBlock) return {};
  filled_ = 0;
  return take_header();
}

Status TarReader::take_body(std::span<const std::byte>& bytes) {
  const auto part =
      bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), remaining_)));
  bytes = bytes.subspan(part.size());
  remaining_ -= part.size();
  if (state_ == State::data) RETURN_IF_ERROR(handler_.data(part));
  if (state_ == State::extension) {
    for (const std::byte b : part) extension_.push_back(static_cast<char>(b));
  }
  if (remaining_ == 0) return end_body();
  return {};
}

// A body of no bytes has no padding either and ends at once.
void TarReader::enter_body(State state, std::uint64_t size) {
  state_ = state;
  remaining_ = size;
  pad_ = padding_of(size);
}

Status TarReader::end_body() {
  const State ended = std::exchange(state_, State::header);
  if (ended == State::data) RETURN_IF_ERROR(handler_.end_file());
  if (ended == State::extension) RETURN_IF_ERROR(end_extension());
  if (ended != State::padding && pad_ > 0) {
    state_ = State::padding;
    remaining_ = pad_;
  }
  return {};
}

Status TarReader::take_header() {
  const std::string_view block(block_.data(), block_.size());
  const bool zeros = std::ranges::all_of(block, [](char c) { return c == '\0'; });
  if (zeros) {
    if (zero_block_) state_ = State::end;
    zero_block_ = true;
    return {};
  }
  if (zero_block_) return malformed("an entry follows a block of zeros");
  if (!checksum_holds(block)) return malformed("a header's checksum is wrong");
  if (++entries_ > limits_.entries_max) {
    return fail(ErrorCode::too_large,
                fmt::format("tar: more than {} entries", limits_.entries_max));
  }
  return start_entry(block, block[kType]);
}

std::string TarReader::entry_name(std::string_view block) const {
  if (next_path_) return *next_path_;
  const std::string_view name = text_of(slice(block, kName));
  const bool posix = slice(block, kMagic) == "ustar" && block[kPosixMark] == '\0';
  const std::string_view prefix = posix ? text_of(slice(block, kPrefix)) : std::string_view();
  return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
}

Status TarReader::start_entry(std::string_view block, char type) {
  const auto stored = parse_number(slice(block, kSize));
  if (!stored) return malformed("a size is no number");
  if (type == 'x' || type == 'g' || type == 'L' || type == 'K')
    return start_extension(type, *stored);

  const std::string name = entry_name(block);
  const std::uint64_t size = next_size_.value_or(*stored);
  next_path_.reset();
  next_size_.reset();
  const bool file = type == '0' || type == '\0' || type == '7';
  if (!file && type != '5') {
    return malformed(
        fmt::format("'{}' is {}: only files and directories are taken", name, type_words(type)));
  }
  std::string_view cleaned = name;
  while (cleaned.starts_with("./")) cleaned.remove_prefix(2);
  if (cleaned == ".") cleaned = {};
  auto path = backend::RelPath::parse(cleaned);
  if (!path) return tl::unexpected(std::move(path).error().with(fmt::format("tar: '{}'", name)));
  // Tar of 1979 had no directories but names with a slash at the end.
  const bool directory = type == '5' || name.ends_with('/');
  if (directory) return path->is_root() ? Status() : handler_.directory(*path);
  if (path->is_root()) return malformed("a file has no name");
  return start_file(*path, size);
}

Status TarReader::start_file(const backend::RelPath& path, std::uint64_t size) {
  if (size > limits_.file_bytes_max || size > limits_.total_bytes_max - total_bytes_) {
    return fail(ErrorCode::too_large,
                fmt::format("tar: '{}' of {} bytes goes past the limit", path.text(), size));
  }
  total_bytes_ += size;
  RETURN_IF_ERROR(handler_.begin_file(path, size));
  enter_body(State::data, size);
  return size == 0 ? end_body() : Status();
}

Status TarReader::start_extension(char type, std::uint64_t size) {
  if (size > limits_.header_bytes_max) {
    return fail(ErrorCode::too_large, fmt::format("tar: an extended header of {} bytes", size));
  }
  extension_type_ = type;
  extension_.clear();
  // Global headers and long link names say nothing that we use.
  enter_body(type == 'x' || type == 'L' ? State::extension : State::skip, size);
  return size == 0 ? end_body() : Status();
}

Status TarReader::end_extension() {
  if (extension_type_ == 'x') return parse_pax(extension_);
  next_path_ = std::string(text_of(extension_));
  return {};
}

// Records of the form "<length> <key>=<value>\n", where the length counts the whole record.
Status TarReader::parse_pax(std::string_view records) {
  while (!records.empty()) {
    const auto space = records.find(' ');
    if (space == std::string_view::npos) return malformed("a pax record has no length");
    const auto length = parse_digits(records.substr(0, space), 10);
    if (!length || *length > records.size() || *length < space + 3) {
      return malformed("a pax record's length is wrong");
    }
    const auto record = records.substr(0, static_cast<std::size_t>(*length));
    records.remove_prefix(record.size());
    const auto equals = record.find('=', space);
    if (record.back() != '\n' || equals == std::string_view::npos) {
      return malformed("a pax record is not key=value");
    }
    RETURN_IF_ERROR(apply_pax(record.substr(space + 1, equals - space - 1),
                              record.substr(equals + 1, record.size() - equals - 2)));
  }
  return {};
}

Status TarReader::apply_pax(std::string_view key, std::string_view value) {
  if (key == "path") next_path_ = std::string(value);
  if (key.starts_with("GNU.sparse.")) return malformed("sparse files are not taken");
  if (key != "size") return {};
  next_size_ = parse_digits(value, 10);
  if (!next_size_) return malformed("a pax size is no number");
  return {};
}

Status TarReader::finish() const {
  if (state_ == State::end) return {};
  return malformed("the archive is cut short");
}

namespace {

void put_octal(std::string& block, Field field, std::uint64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, field.size - 1);
  block.replace(field.offset, digits.size(), digits);
}

// The place to split `path` into prefix and name, or none if it does not fit.
std::optional<std::size_t> split_at(std::string_view path) {
  const std::size_t from = path.size() > kName.size + 1 ? path.size() - kName.size - 1 : 0;
  const auto slash = path.find('/', from);
  if (slash == std::string_view::npos || slash == 0 || slash > kPrefix.size ||
      slash + 1 == path.size()) {
    return std::nullopt;
  }
  return slash;
}

std::string block_of(std::string_view name, std::string_view prefix, const TarMember& member,
                     char type) {
  std::string block(kTarBlock, '\0');
  block.replace(kName.offset, name.size(), name);
  put_octal(block, kMode, member.mode & 07777U);
  put_octal(block, kUid, 0);
  put_octal(block, kGid, 0);
  put_octal(block, kSize, member.size > kOctalSizeMax ? 0 : member.size);
  const auto seconds =
      std::chrono::floor<std::chrono::seconds>(member.modified).time_since_epoch().count();
  put_octal(block, kMtime,
            static_cast<std::uint64_t>(
                std::clamp<std::int64_t>(seconds, 0, static_cast<std::int64_t>(kOctalSizeMax))));
  block[kType] = type;
  block.replace(kMagic.offset, 8, std::string_view("ustar\00000", 8));
  block.replace(kPrefix.offset, prefix.size(), prefix);
  block.replace(kChecksum.offset, kChecksum.size, kChecksum.size, ' ');
  std::uint64_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  block.replace(kChecksum.offset, kChecksum.size,
                fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return block;
}

std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;  // space, '=', newline
  std::size_t length = rest + 1;
  while (length != rest + std::to_string(length).size()) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

std::string tar_header(const TarMember& member) {
  const std::string path = member.directory ? member.path + "/" : member.path;
  std::string name = path;
  std::string prefix;
  std::string records;
  if (path.size() > kName.size) {
    if (const auto slash = split_at(path)) {
      prefix = path.substr(0, *slash);
      name = path.substr(*slash + 1);
    } else {
      records += pax_record("path", path);
      name = path.substr(0, kName.size);
    }
  }
  if (member.size > kOctalSizeMax) records += pax_record("size", std::to_string(member.size));
  std::string out;
  if (!records.empty()) {
    const TarMember extension{.path = {},
                              .directory = false,
                              .size = records.size(),
                              .mode = 0644,
                              .modified = member.modified};
    out = block_of("././@PaxHeader", {}, extension, 'x') + records;
    out.append(padding_of(records.size()), '\0');
  }
  return out + block_of(name, prefix, member, member.directory ? '5' : '0');
}

}  // namespace onggi::vfolder
