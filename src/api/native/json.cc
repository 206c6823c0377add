#include "api/native/json.h"

#include <algorithm>
#include <chrono>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

namespace onggi::api {

namespace {

tl::unexpected<Error> mistyped(const std::string& pointer, std::string_view wanted) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("\"{}\" must be {}", pointer.empty() ? "/" : pointer, wanted));
}

std::string joined(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace

Result<boost::json::value> parse_json(std::string_view text) {
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error);
  if (error) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the body is not JSON: {}", error.message()));
  }
  return value;
}

std::string child_pointer(const std::string& pointer, std::string_view field) {
  std::string child = pointer + '/';
  for (const char c : field) {
    if (c == '~') {
      child += "~0";
    } else if (c == '/') {
      child += "~1";
    } else {
      child += c;
    }
  }
  return child;
}

tl::unexpected<Error> missing_field(const std::string& pointer, std::string_view field) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("\"{}\" is missing", child_pointer(pointer, field)));
}

Status read(const boost::json::value& value, const std::string& pointer, std::string& out) {
  const boost::json::string* text = value.if_string();
  if (text == nullptr) return mistyped(pointer, "a string");
  out.assign(text->data(), text->size());
  return {};
}

Status read(const boost::json::value& value, const std::string& pointer, std::uint64_t& out) {
  if (const std::int64_t* number = value.if_int64(); number != nullptr && *number >= 0) {
    out = static_cast<std::uint64_t>(*number);
    return {};
  }
  return mistyped(pointer, "an integer from 0 to 2^63 - 1");
}

Status read(const boost::json::value& value, const std::string& pointer, bool& out) {
  const bool* flag = value.if_bool();
  if (flag == nullptr) return mistyped(pointer, "true or false");
  out = *flag;
  return {};
}

Status read(const boost::json::value& value, const std::string& pointer, Uuid& out) {
  const boost::json::string* text = value.if_string();
  Result<Uuid> id = text == nullptr ? fail(ErrorCode::invalid_argument, "not a string")
                                    : Uuid::parse({text->data(), text->size()});
  if (!id) return mistyped(pointer, "a UUID");
  out = *id;
  return {};
}

Status read(const boost::json::value& value, const std::string& pointer,
            std::map<std::string, std::string>& out) {
  const boost::json::object* object = value.if_object();
  if (object == nullptr) return mistyped(pointer, "an object of strings");
  for (const auto& [key, item] : *object) {
    RETURN_IF_ERROR(read(item, child_pointer(pointer, key), out[std::string(key)]));
  }
  return {};
}

Result<const boost::json::object*> read_object(const boost::json::value& value,
                                               const std::string& pointer,
                                               std::initializer_list<std::string_view> known) {
  const boost::json::object* object = value.if_object();
  if (object == nullptr) return mistyped(pointer, "an object");
  for (const auto& [key, item] : *object) {
    if (std::ranges::find(known, std::string_view(key)) == known.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("\"{}\" is unknown; known here are {}", child_pointer(pointer, key),
                              joined(known)));
    }
  }
  return object;
}

Result<std::size_t> read_name(const boost::json::value& value, const std::string& pointer,
                              std::initializer_list<std::string_view> names) {
  if (const boost::json::string* text = value.if_string()) {
    const auto* found = std::ranges::find(names, std::string_view(*text));
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  return mistyped(pointer, "one of " + joined(names));
}

Status check_range(const std::string& pointer, std::string_view field,
                   const std::optional<std::uint64_t>& value, IntegerRange range) {
  if (!value || (*value >= range.min && *value <= range.max)) return {};
  return mistyped(child_pointer(pointer, field),
                  fmt::format("from {} to {}", range.min, range.max));
}

void write(std::string& out, std::string_view value) {
  out += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

void write(std::string& out, std::uint64_t value) {
  out += fmt::format_int(value).c_str();
}

void write(std::string& out, bool value) {
  out += value ? "true" : "false";
}

void write(std::string& out, const Uuid& value) {
  write(out, std::string_view(value.to_string()));
}

void write(std::string& out, UnixTime value) {
  write(out, std::string_view(rfc3339(value)));
}

void write(std::string& out, const std::map<std::string, std::string>& value) {
  ObjectWriter object(out);
  for (const auto& [key, item] : value) object.field(key, item);
}

std::string rfc3339(UnixTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

}  // namespace onggi::api
