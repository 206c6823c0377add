#include "api/backendai/python_json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace onggi::api::backendai {
namespace {

// The code point at the start of `text`, which is UTF-8, and takes it away.
std::uint32_t take_code_point(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::uint32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length && i < text.size(); ++i) {
    code = (code << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  text.remove_prefix(std::min(length, text.size()));
  return code;
}

void append_escaped(std::string& out, std::uint32_t code) {
  const auto to = std::back_inserter(out);
  if (code < 0x10000) {
    fmt::format_to(to, "\\u{:04x}", code);
  } else {  // as UTF-16 has it
    const std::uint32_t rest = code - 0x10000;
    fmt::format_to(to, "\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10U), 0xDC00 + (rest & 0x3FFU));
  }
}

void append_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::uint32_t code = take_code_point(text);
    constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
    std::size_t i = 0;
    while (i < kShort.size() && static_cast<unsigned char>(kShort[i]) != code) i += 2;
    if (i < kShort.size()) {
      out += '\\';
      out += kShort[i + 1];
    } else if (code < 0x20 || code > 0x7F) {
      append_escaped(out, code);
    } else {
      out += static_cast<char>(code);
    }
  }
  out += '"';
}

void append(std::string& out, const boost::json::value& value) {
  std::string_view separator;
  if (const auto* object = value.if_object()) {
    out += '{';
    for (const auto& [key, member] : *object) {
      out += separator;
      append_text(out, key);
      out += ": ";
      append(out, member);
      separator = ", ";
    }
    out += '}';
  } else if (const auto* array = value.if_array()) {
    out += '[';
    for (const boost::json::value& item : *array) {
      out += separator;
      append(out, item);
      separator = ", ";
    }
    out += ']';
  } else if (const auto* text = value.if_string()) {
    append_text(out, *text);
  } else if (const auto* number = value.if_double()) {
    // The shortest text that reads back as the same number, with a point, as Python's repr().
    const std::string shown = fmt::format("{}", *number);
    out += shown;
    if (shown.find_first_not_of("-0123456789") == std::string::npos) out += ".0";
  } else {
    out += boost::json::serialize(value);
  }
}

}  // namespace

std::string python_json(const boost::json::value& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace onggi::api::backendai
