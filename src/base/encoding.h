#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace onggi {

std::span<const std::byte> as_bytes(std::string_view text);

std::string hex_encode(std::span<const std::byte> bytes);
Result<std::string> hex_decode(std::string_view text);

// Standard alphabet with padding (RFC 4648 §4); decoding refuses anything else.
std::string base64_encode(std::span<const std::byte> bytes);
Result<std::string> base64_decode(std::string_view text);

// URL alphabet without padding (RFC 4648 §5).
std::string base64url_encode(std::span<const std::byte> bytes);

// Percent-decoding of a URL component (RFC 3986); `plus_is_space` for query strings.
Result<std::string> percent_decode(std::string_view text, bool plus_is_space = false);
// Percent-encodes everything but unreserved characters and, when `keep_slash`, '/'.
std::string percent_encode(std::string_view text, bool keep_slash = false);

// ASCII letters in lower case, whatever the locale; other bytes as they are.
constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string ascii_lower(std::string_view text);

// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

}  // namespace onggi
