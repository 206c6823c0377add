#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace onggi {

// A UUID (RFC 9562). Names on the wire and on disk are never taken from callers: ids are random.
class Uuid {
 public:
  Uuid() = default;
  // A version 4 UUID from the kernel's random generator.
  static Uuid random();
  // Accepts 36 characters with dashes or 32 hexadecimal digits, either case.
  static Result<Uuid> parse(std::string_view text);

  std::string to_string() const;  // with dashes, lower case
  std::string hex() const;        // 32 digits
  const std::array<std::uint8_t, 16>& bytes() const { return bytes_; }
  bool is_nil() const { return *this == Uuid(); }

  auto operator<=>(const Uuid&) const = default;

 private:
  std::array<std::uint8_t, 16> bytes_{};
};

}  // namespace onggi

template <>
struct std::hash<onggi::Uuid> {
  std::size_t operator()(const onggi::Uuid& id) const noexcept;
};
