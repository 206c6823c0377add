#include "vfolder/names.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/encoding.h"

namespace onggi::vfolder {
namespace {

constexpr std::size_t kVFolderNameMax = 128;
constexpr std::size_t kNameMax = 63;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

Status check_vfolder_name(std::string_view name) {
  if (name.empty() || name.size() > kVFolderNameMax) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("a vfolder's name has 1 to {} bytes", kVFolderNameMax));
  }
  if (name.front() == '.') {
    return fail(ErrorCode::invalid_argument, "a vfolder's name must not start with '.'");
  }
  if (name.find('/') != std::string_view::npos) {
    return fail(ErrorCode::invalid_argument, "a vfolder's name must not contain '/'");
  }
  if (std::ranges::any_of(name, is_control) || !is_utf8(name)) {
    return fail(ErrorCode::invalid_argument,
                "a vfolder's name must be UTF-8 without control characters");
  }
  return {};
}

Status check_name(std::string_view what, std::string_view name) {
  const bool good = !name.empty() && name.size() <= kNameMax && is_alphanumeric(name.front()) &&
                    std::ranges::all_of(name, [](char c) {
                      return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("a {}'s name has 1 to {} of a-z, A-Z, 0-9, '.', '_' and '-' and starts "
                          "with a letter or digit",
                          what, kNameMax));
}

}  // namespace onggi::vfolder
