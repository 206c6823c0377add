#include "vfolder/upload_metadata.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/encoding.h"

namespace onggi::vfolder {
namespace {

constexpr std::size_t kMetadataMax = 16384;
constexpr std::size_t kKeysMax = 64;

tl::unexpected<Error> malformed(std::string_view why) {
  return fail(ErrorCode::invalid_argument, fmt::format("Upload-Metadata: {}", why));
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Splits at the first `separator`; the second part is empty when there is none.
std::pair<std::string_view, std::string_view> cut(std::string_view text, char separator) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

bool is_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) { return c > 0x20 && c < 0x7f; });
}

Result<std::map<std::string, std::string, std::less<>>> parse_pairs(std::string_view text) {
  if (text.size() > kMetadataMax) {
    return malformed(fmt::format("longer than {} bytes", kMetadataMax));
  }
  std::map<std::string, std::string, std::less<>> pairs;
  while (!trim(text).empty()) {
    const auto [pair, rest] = cut(text, ',');
    text = rest;
    const auto [key, encoded] = cut(trim(pair), ' ');
    if (!is_key(key)) return malformed("a key is empty or not ASCII");
    auto value = base64_decode(trim(encoded));
    if (!value) return malformed(fmt::format("the value of '{}' is not base64", key));
    if (pairs.size() >= kKeysMax) return malformed(fmt::format("more than {} keys", kKeysMax));
    if (!pairs.emplace(key, *std::move(value)).second) {
      return malformed(fmt::format("'{}' appears twice", key));
    }
  }
  return pairs;
}

}  // namespace

Result<UploadMetadata> parse_upload_metadata(std::string_view text) {
  ASSIGN_OR_RETURN(const auto pairs, parse_pairs(text));
  auto path = pairs.find("path");
  if (path == pairs.end()) path = pairs.find("filename");
  if (path == pairs.end()) return malformed("there is neither 'path' nor 'filename'");
  auto parsed = backend::RelPath::parse(path->second);
  if (!parsed) return tl::unexpected(std::move(parsed).error().with("Upload-Metadata: path"));
  if (parsed->is_root()) return malformed("path is empty");
  UploadMetadata metadata{.path = *std::move(parsed), .xxh3 = {}};
  if (const auto checksum = pairs.find("checksum"); checksum != pairs.end()) {
    ASSIGN_OR_RETURN(metadata.xxh3, parse_xxh3(checksum->second));
  }
  return metadata;
}

Result<ChunkChecksum> parse_upload_checksum(std::string_view text) {
  const auto [name, encoded] = cut(trim(text), ' ');
  ChunkChecksum checksum;
  std::size_t size = 0;
  if (name == "sha1") {
    checksum.algorithm = ChecksumAlgorithm::sha1;
    size = 20;
  } else if (name == "xxh3") {
    checksum.algorithm = ChecksumAlgorithm::xxh3;
    size = 8;
  } else {
    return fail(ErrorCode::invalid_argument,
                "Upload-Checksum: the algorithm is neither sha1 nor xxh3");
  }
  auto digest = base64_decode(trim(encoded));
  if (!digest || digest->size() != size) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("Upload-Checksum: not the base64 of {} bytes", size));
  }
  checksum.digest = *std::move(digest);
  return checksum;
}

Result<std::uint64_t> parse_xxh3(std::string_view text) {
  constexpr std::string_view kPrefix = "xxh3=";
  constexpr std::size_t kDigits = 16;
  std::uint64_t value = 0;
  if (text.starts_with(kPrefix) && text.size() == kPrefix.size() + kDigits) {
    const char* const begin = text.data() + kPrefix.size();
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(begin, end, value, 16);
    if (error == std::errc() && rest == end) return value;
  }
  return fail(ErrorCode::invalid_argument, "the checksum is not xxh3=<16 hexadecimal digits>");
}

Status verify_xxh3(std::string_view what, std::uint64_t digest, std::uint64_t announced,
                   std::string_view outcome) {
  if (digest == announced) return {};
  return fail(ErrorCode::corruption,
              fmt::format("the {}'s checksum is xxh3={:016x}, not xxh3={:016x}: {}", what, digest,
                          announced, outcome));
}

}  // namespace onggi::vfolder
