#include "backend/rel_path.h"

#include <fmt/format.h>

#include "base/encoding.h"

namespace onggi::backend {
namespace {

constexpr std::size_t kNameBytesMax = 255;  // NAME_MAX of every Linux file system
constexpr std::size_t kPathBytesMax = 4096;
constexpr std::string_view kStagingName = ".upload";

// A control character in a name is refused: it could forge a log line or a terminal command.
bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

Status check_segment(std::string_view segment) {
  const auto refuse = [](std::string_view why) {
    return fail(ErrorCode::invalid_argument, fmt::format("invalid path: {}", why));
  };
  if (segment.empty()) return refuse("it has an empty segment ('//')");
  if (segment == "." || segment == "..") {
    return refuse(fmt::format("'{}' segments are not allowed", segment));
  }
  if (segment.size() > kNameBytesMax) {
    return refuse(fmt::format("a name is longer than {} bytes", kNameBytesMax));
  }
  for (const char c : segment) {
    if (c == '\0') return refuse("it holds a NUL byte");
    if (is_control(c)) return refuse("it holds a control character");
  }
  return {};
}

}  // namespace

Result<RelPath> RelPath::parse(std::string_view text) {
  if (text.empty()) return RelPath();
  if (text.size() > kPathBytesMax) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("invalid path: longer than {} bytes", kPathBytesMax));
  }
  if (text.front() == '/') {
    return fail(ErrorCode::invalid_argument,
                "invalid path: it is absolute; paths are relative to the vfolder");
  }
  if (!is_utf8(text)) {
    return fail(ErrorCode::invalid_argument, "invalid path: it is not valid UTF-8");
  }
  if (text.back() == '/') text.remove_suffix(1);
  if (text.substr(0, text.find('/')) == kStagingName) {
    return fail(ErrorCode::invalid_argument,
                "invalid path: '.upload' at the top of a vfolder is reserved for uploads");
  }
  for (std::size_t begin = 0; begin != std::string_view::npos;) {
    const std::size_t slash = text.find('/', begin);
    RETURN_IF_ERROR(check_segment(text.substr(begin, slash - begin)));
    begin = slash == std::string_view::npos ? slash : slash + 1;
  }
  return RelPath(std::string(text));
}

RelPath RelPath::parent() const {
  const std::size_t slash = text_.rfind('/');
  return slash == std::string::npos ? RelPath() : RelPath(text_.substr(0, slash));
}

std::string_view RelPath::name() const {
  const std::size_t slash = text_.rfind('/');
  return slash == std::string::npos ? std::string_view(text_)
                                    : std::string_view(text_).substr(slash + 1);
}

RelPath RelPath::join(std::string_view valid_name) const {
  if (is_root()) return RelPath(std::string(valid_name));
  return RelPath(fmt::format("{}/{}", text_, valid_name));
}

}  // namespace onggi::backend
