#include "base/encoding.h"

#include <array>
#include <cstdint>

namespace onggi {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kBase64Url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

std::string encode64(std::span<const std::byte> bytes, std::string_view alphabet, bool pad) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    std::uint32_t group = std::to_integer<std::uint32_t>(bytes[i]) << 16;
    if (left > 1) group |= std::to_integer<std::uint32_t>(bytes[i + 1]) << 8;
    if (left > 2) group |= std::to_integer<std::uint32_t>(bytes[i + 2]);
    const std::size_t digits = left >= 3 ? 4 : left + 1;
    for (std::size_t d = 0; d < digits; ++d) out += alphabet[(group >> (18 - 6 * d)) & 63];
    if (pad) out.append(4 - digits, '=');
  }
  return out;
}

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// The bytes that follow a UTF-8 lead byte, or -1 when it is none.
int continuation_count(unsigned char lead) {
  if (lead < 0x80) return 0;
  if (lead >= 0xc2 && lead <= 0xdf) return 1;
  if (lead >= 0xe0 && lead <= 0xef) return 2;
  if (lead >= 0xf0 && lead <= 0xf4) return 3;
  return -1;
}

// Refuses overlong forms, surrogates and values above U+10FFFF by the second byte's range.
bool second_byte_fits(unsigned char lead, unsigned char second) {
  if (lead == 0xe0) return second >= 0xa0;
  if (lead == 0xed) return second <= 0x9f;
  if (lead == 0xf0) return second >= 0x90;
  if (lead == 0xf4) return second <= 0x8f;
  return true;
}

}  // namespace

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string hex_encode(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    const auto value = std::to_integer<unsigned>(b);
    out += kHexDigits[value >> 4];
    out += kHexDigits[value & 15];
  }
  return out;
}

Result<std::string> hex_decode(std::string_view text) {
  if (text.size() % 2 != 0) {
    return fail(ErrorCode::invalid_argument, "odd number of hexadecimal digits");
  }
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return fail(ErrorCode::invalid_argument, "not a hexadecimal digit");
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string base64_encode(std::span<const std::byte> bytes) {
  return encode64(bytes, kBase64, true);
}

std::string base64url_encode(std::span<const std::byte> bytes) {
  return encode64(bytes, kBase64Url, false);
}

Result<std::string> base64_decode(std::string_view text) {
  const auto malformed = [] { return fail(ErrorCode::invalid_argument, "not valid base64"); };
  if (text.size() % 4 != 0) return malformed();
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    std::size_t digits = 4;
    if (last && text[i + 3] == '=') digits = text[i + 2] == '=' ? 2 : 3;
    std::uint32_t group = 0;
    for (std::size_t d = 0; d < digits; ++d) {
      const int value = base64_value(text[i + d]);
      if (value < 0) return malformed();
      group |= static_cast<std::uint32_t>(value) << (18 - 6 * d);
    }
    // Bits that no byte uses must be zero, or two texts would mean the same bytes.
    if (digits < 4 && (group & (digits == 2 ? 0xffffU : 0xffU)) != 0) return malformed();
    for (std::size_t b = 0; b + 1 < digits; ++b) {
      out += static_cast<char>((group >> (16 - 8 * b)) & 0xff);
    }
  }
  return out;
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = text.size() - i > 2 ? hex_value(text[i + 1]) : -1;
      const int low = text.size() - i > 2 ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return fail(ErrorCode::invalid_argument, "'%' is not followed by two hexadecimal digits");
      }
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::string percent_encode(std::string_view text, bool keep_slash) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      out += c;
    } else {
      const auto value = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[value >> 4];
      out += "0123456789ABCDEF"[value & 15];
    }
  }
  return out;
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = ascii_lower(c);
  return out;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    const int more = continuation_count(lead);
    if (more < 0 || text.size() - i < static_cast<std::size_t>(more)) return false;
    for (int k = 0; k < more; ++k) {
      const auto byte = static_cast<unsigned char>(text[i++]);
      if ((byte & 0xc0) != 0x80) return false;
      if (k == 0 && !second_byte_fits(lead, byte)) return false;
    }
  }
  return true;
}

}  // namespace onggi
