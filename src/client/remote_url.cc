#include "client/remote_url.h"

#include <fmt/format.h>

namespace onggi::client {

namespace {

constexpr std::string_view kScheme = "onggi://";

// Cuts the first segment off `rest`.
std::string_view take_segment(std::string_view& rest) {
  const std::size_t slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
  return segment;
}

tl::unexpected<Error> malformed(std::string_view text, std::string_view why) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("'{}' {}; it looks like onggi://volume/vfolder/path", text, why));
}

}  // namespace

bool is_remote_url(std::string_view text) {
  return text.starts_with(kScheme);
}

std::string RemoteUrl::to_string() const {
  return fmt::format("{}{}", kScheme, join_path(join_path(volume, vfolder), path));
}

Result<RemoteUrl> parse_remote_url(std::string_view text) {
  std::string_view rest = text;
  if (is_remote_url(rest)) {
    rest.remove_prefix(kScheme.size());
  } else if (rest.find("://") != std::string_view::npos) {
    return malformed(text, "is not an onggi URL");
  }
  RemoteUrl url;
  url.volume = take_segment(rest);
  if (url.volume.empty()) return malformed(text, "names no volume");
  url.vfolder = take_segment(rest);
  url.trailing_slash = text.ends_with('/');
  while (!rest.empty()) {
    const std::string_view segment = take_segment(rest);
    if (segment == "." || segment == "..") return malformed(text, "has '.' or '..' in its path");
    if (!segment.empty()) url.path = join_path(url.path, segment);
  }
  return url;
}

std::string join_path(std::string_view a, std::string_view b) {
  if (a.empty()) return std::string(b);
  if (b.empty()) return std::string(a);
  return fmt::format("{}/{}", a, b);
}

}  // namespace onggi::client
