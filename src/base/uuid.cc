#include "base/uuid.h"

#include <cstddef>
#include <cstring>
#include <span>

#include "base/encoding.h"
#include "base/random.h"

namespace onggi {

Uuid Uuid::random() {
  Uuid id;
  fill_random(std::as_writable_bytes(std::span(id.bytes_)));
  id.bytes_[6] = static_cast<std::uint8_t>((id.bytes_[6] & 0x0f) | 0x40);  // version 4
  id.bytes_[8] = static_cast<std::uint8_t>((id.bytes_[8] & 0x3f) | 0x80);  // RFC 9562 variant
  return id;
}

Result<Uuid> Uuid::parse(std::string_view text) {
  std::string digits;
  if (text.size() == 36) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool dash_here = i == 8 || i == 13 || i == 18 || i == 23;
      if (dash_here != (text[i] == '-')) {
        return fail(ErrorCode::invalid_argument, "not a UUID: dashes in the wrong places");
      }
      if (!dash_here) digits += text[i];
    }
  } else if (text.size() == 32) {
    digits = text;
  } else {
    return fail(ErrorCode::invalid_argument, "not a UUID: expected 32 hexadecimal digits");
  }
  ASSIGN_OR_RETURN(const std::string raw, hex_decode(digits));
  Uuid id;
  std::memcpy(id.bytes_.data(), raw.data(), id.bytes_.size());
  return id;
}

std::string Uuid::hex() const {
  return hex_encode(std::as_bytes(std::span(bytes_)));
}

std::string Uuid::to_string() const {
  std::string text = hex();
  for (const std::size_t position : {8, 13, 18, 23}) text.insert(position, 1, '-');
  return text;
}

}  // namespace onggi

std::size_t std::hash<onggi::Uuid>::operator()(const onggi::Uuid& id) const noexcept {
  std::size_t value = 0;  // random bytes are their own hash
  std::memcpy(&value, id.bytes().data(), sizeof value);
  return value;
}
