#include "http/message.h"

#include <algorithm>

#include "base/encoding.h"

namespace onggi::http {

bool equal_names(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return ascii_lower(x) == ascii_lower(y);
         });
}

void Headers::set(std::string name, std::string value) {
  std::erase_if(fields_, [&](const auto& field) { return equal_names(field.first, name); });
  add(std::move(name), std::move(value));
}

void Headers::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

std::optional<std::string_view> Headers::get(std::string_view name) const {
  for (const auto& [key, value] : fields_) {
    if (equal_names(key, name)) return value;
  }
  return std::nullopt;
}

}  // namespace onggi::http
