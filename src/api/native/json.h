#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"

// The primitives under the generated codecs. Reading is strict: a missing, unknown or mistyped
// field is invalid_argument whose message names its JSON pointer (RFC 6901). Writing appends text
// directly, since a page of 10,000 entries is common. Stateless.
namespace onggi::api {

// The bound of a 64-bit signed integer, which is what other JSON readers can hold.
inline constexpr std::uint64_t kIntegerMax = std::numeric_limits<std::int64_t>::max();

struct IntegerRange {
  std::uint64_t min = 0;
  std::uint64_t max = kIntegerMax;
};

Result<boost::json::value> parse_json(std::string_view text);

Status read(const boost::json::value& value, const std::string& pointer, std::string& out);
Status read(const boost::json::value& value, const std::string& pointer, std::uint64_t& out);
Status read(const boost::json::value& value, const std::string& pointer, bool& out);
Status read(const boost::json::value& value, const std::string& pointer, Uuid& out);
Status read(const boost::json::value& value, const std::string& pointer,
            std::map<std::string, std::string>& out);

// `value` as an object that holds none but `known` fields.
Result<const boost::json::object*> read_object(const boost::json::value& value,
                                               const std::string& pointer,
                                               std::initializer_list<std::string_view> known);
// The index of `value` among `names`.
Result<std::size_t> read_name(const boost::json::value& value, const std::string& pointer,
                              std::initializer_list<std::string_view> names);
tl::unexpected<Error> missing_field(const std::string& pointer, std::string_view field);
std::string child_pointer(const std::string& pointer, std::string_view field);

template <typename T>
Status read_required(const boost::json::object& object, const std::string& pointer,
                     std::string_view field, T& out) {
  const boost::json::value* value = object.if_contains(field);
  if (value == nullptr) return missing_field(pointer, field);
  return read(*value, child_pointer(pointer, field), out);
}

template <typename T>
Status read_optional(const boost::json::object& object, const std::string& pointer,
                     std::string_view field, T& out) {
  const boost::json::value* value = object.if_contains(field);
  return value == nullptr ? Status() : read(*value, child_pointer(pointer, field), out);
}

template <typename T>
Status read_optional(const boost::json::object& object, const std::string& pointer,
                     std::string_view field, std::optional<T>& out) {
  const boost::json::value* value = object.if_contains(field);
  return value == nullptr ? Status() : read(*value, child_pointer(pointer, field), out.emplace());
}

Status check_range(const std::string& pointer, std::string_view field,
                   const std::optional<std::uint64_t>& value, IntegerRange range);

void write(std::string& out, std::string_view value);
void write(std::string& out, std::uint64_t value);
void write(std::string& out, bool value);
void write(std::string& out, const Uuid& value);
void write(std::string& out, UnixTime value);  // RFC 3339, UTC, milliseconds
void write(std::string& out, const std::map<std::string, std::string>& value);
inline void write(std::string& out, const std::string& value) {
  write(out, std::string_view(value));
}

template <typename T>
void write(std::string& out, const std::vector<T>& values) {
  out += '[';
  for (const T& value : values) {
    if (&value != &values.front()) out += ',';
    write(out, value);
  }
  out += ']';
}

// Appends an object, field by field; the destructor closes it.
class ObjectWriter {
 public:
  explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }
  ~ObjectWriter() { out_ += '}'; }
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;
  ObjectWriter(ObjectWriter&&) = delete;
  ObjectWriter& operator=(ObjectWriter&&) = delete;

  template <typename T>
  void field(std::string_view name, const T& value) {
    if (!first_) out_ += ',';
    first_ = false;
    write(out_, name);
    out_ += ':';
    write(out_, value);
  }

  template <typename T>
  void optional_field(std::string_view name, const std::optional<T>& value) {
    if (value) field(name, *value);
  }

  // Lists and maps that may be absent are, when empty.
  template <typename Container>
  void optional_field(std::string_view name, const Container& values) {
    if (!values.empty()) field(name, values);
  }

 private:
  std::string& out_;
  bool first_ = true;
};

std::string rfc3339(UnixTime time);

}  // namespace onggi::api
