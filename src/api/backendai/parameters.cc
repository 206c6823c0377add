#include "api/backendai/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "api/backendai/replies.h"
#include "base/encoding.h"

namespace onggi::api::backendai {
namespace {

// As Python's int() reads text: blanks around, a sign, single '_' between digits.
std::optional<std::int64_t> number_in(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(kBlank) - first + 1);
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&text](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    digits += text[i];
  }
  std::int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::optional<std::int64_t> integer_in(const boost::json::value& value) {
  if (const auto* number = value.if_int64()) return *number;
  if (const auto* text = value.if_string()) return number_in(*text);
  if (const auto* real = value.if_double()) {  // int() cuts
    constexpr double kMost = 9.0e18;
    if (*real > -kMost && *real < kMost) return static_cast<std::int64_t>(*real);
  }
  if (const auto* flag = value.if_bool()) return *flag ? 1 : 0;
  return std::nullopt;
}

// trafaret.ToBool
std::optional<bool> flag_in(const boost::json::value& value) {
  if (const auto* flag = value.if_bool()) return *flag;
  if (const auto* number = value.if_int64()) {
    if (*number == 0 || *number == 1) return *number == 1;
    return std::nullopt;
  }
  if (const auto* text = value.if_string()) {
    constexpr auto kTrue = std::to_array<std::string_view>({"t", "true", "y", "yes", "on", "1"});
    constexpr auto kFalse = std::to_array<std::string_view>({"f", "false", "n", "no", "off", "0"});
    const std::string lower = ascii_lower(*text);
    if (std::ranges::find(kTrue, lower) != kTrue.end()) return true;
    if (std::ranges::find(kFalse, lower) != kFalse.end()) return false;
  }
  return std::nullopt;
}

Result<std::string> path_in(const boost::json::value& value) {
  const auto* text = value.if_string();
  if (text == nullptr) return fail(ErrorCode::invalid_argument, "cannot parse value as a path");
  return normal_path(*text);
}

}  // namespace

Parameters::Parameters(const http::Request& request) {
  // Depth is bounded by the parser (32); bytes by the server.
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(request.body, error);
  if (error) {
    broken_ = malformed_body(request.body.empty() ? "there is none" : error.message());
  } else if (auto* object = value.if_object()) {
    object_ = std::move(*object);
  } else {
    broken_ = invalid_parameters("value is not a dict");
  }
}

Parameters::Parameters(boost::json::object object) : object_(std::move(object)) {}

const boost::json::value* Parameters::find(const char* key, bool required) {
  known_.emplace_back(key);
  const boost::json::value* value = object_.if_contains(key);
  if (value == nullptr && required) mark(key, "is required");
  return value;
}

void Parameters::mark(const char* key, std::string_view what) {
  wrong_[key] = what;
}

template <typename T>
T Parameters::value_or_mark(const char* key, Result<T> value) {
  if (value) return *std::move(value);
  mark(key, value.error().message());
  return {};
}

std::string Parameters::text(const char* key) {
  const auto* value = find(key, true);
  if (value == nullptr) return {};
  if (const auto* text = value->if_string(); text != nullptr && !text->empty()) {
    return std::string(*text);
  }
  mark(key, value->is_string() ? "blank value is not allowed" : "value is not a string");
  return {};
}

std::string Parameters::text_or(const char* key, std::string_view otherwise) {
  if (object_.contains(key)) return text(key);
  known_.emplace_back(key);
  return std::string(otherwise);
}

std::optional<std::string> Parameters::nullable_text(const char* key) {
  if (find(key, true) == nullptr) return std::nullopt;
  return text_or_null(key);
}

std::optional<std::string> Parameters::text_or_null(const char* key) {
  const auto* value = find(key, false);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (const auto* text = value->if_string()) return std::string(*text);
  mark(key, "value is not a string");
  return std::nullopt;
}

std::vector<std::string> Parameters::texts(const char* key) {
  const auto* value = find(key, true);
  if (value == nullptr) return {};
  std::vector<std::string> texts;
  const auto* items = value->if_array();
  const bool good = items != nullptr && std::ranges::all_of(*items, [&](const auto& item) {
                      if (const auto* text = item.if_string()) texts.emplace_back(*text);
                      return item.is_string();
                    });
  if (good) return texts;
  mark(key, "value is not a list of strings");
  return {};
}

void Parameters::exactly(const char* key, std::string_view text) {
  const auto* value = find(key, true);
  if (value == nullptr) return;
  const auto* given = value->if_string();
  if (given == nullptr || std::string_view(*given) != text) {
    mark(key, fmt::format("value is not exactly '{}'", text));
  }
}

VFolderId Parameters::vfolder(const char* key) {
  const auto* value = find(key, true);
  if (value == nullptr) return {};
  const auto* text = value->if_string();
  if (text != nullptr) return value_or_mark(key, VFolderId::parse(*text));
  mark(key, "cannot convert value to VFolderID");
  return {};
}

QuotaScopeId Parameters::quota_scope(const char* key) {
  const auto* value = find(key, true);
  if (value == nullptr) return {};
  const auto* text = value->if_string();
  if (text != nullptr) return value_or_mark(key, QuotaScopeId::parse(*text));
  mark(key, "value is not a string");
  return {};
}

std::string Parameters::path(const char* key) {
  const auto* value = find(key, true);
  if (value == nullptr) return {};
  return value_or_mark(key, path_in(*value));
}

std::vector<std::string> Parameters::path_list(const char* key, const boost::json::array& items) {
  std::vector<std::string> paths;
  boost::json::object errors;  // by index, as trafaret has them
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto path = path_in(items[i]);
    if (path) {
      paths.push_back(*std::move(path));
    } else {
      errors[std::to_string(i)] = path.error().message();
    }
  }
  if (!errors.empty()) wrong_[key] = errors;
  return paths;
}

std::vector<std::string> Parameters::paths(const char* key) {
  const auto* value = find(key, true);
  if (value == nullptr) return {};
  if (const auto* items = value->if_array()) return path_list(key, *items);
  mark(key, "value is not a list");
  return {};
}

std::vector<std::string> Parameters::path_or_paths(const char* key, std::size_t most) {
  const auto* value = find(key, true);
  if (value == nullptr) return {};
  if (const auto* items = value->if_array()) {
    if (items->size() <= most) return path_list(key, *items);
    mark(key, fmt::format("list length is greater than {}", most));
    return {};
  }
  auto path = path_in(*value);
  if (path) return {*std::move(path)};
  mark(key, path.error().message());
  return {};
}

bool Parameters::flag(const char* key, bool otherwise) {
  const auto* value = find(key, false);
  if (value == nullptr) return otherwise;
  const auto flag = flag_in(*value);
  if (!flag) mark(key, "value can't be converted to Bool");
  return flag.value_or(otherwise);
}

std::int64_t Parameters::number(const char* key) {
  const auto* value = find(key, true);
  if (value == nullptr) return 0;
  const auto number = integer_in(*value);
  if (!number) mark(key, "value can't be converted to int");
  return number.value_or(0);
}

std::optional<std::int64_t> Parameters::nullable_number(const char* key) {
  const auto* value = find(key, false);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (const auto* number = value->if_int64()) return *number;
  mark(key, "value is not int");
  return std::nullopt;
}

std::optional<std::int64_t> Parameters::quota(const char* key, bool required) {
  const auto* value = find(key, required);
  if (value == nullptr || (value->is_null() && !required)) return std::nullopt;
  const auto* object = value->if_object();
  if (object == nullptr) {
    mark(key, "value is not a dict");
    return std::nullopt;
  }
  Parameters options(*object);
  const std::int64_t limit = options.number("limit_bytes");
  options.mark_others();
  if (options.wrong_.empty()) return limit;
  wrong_[key] = options.wrong_;
  return std::nullopt;
}

void Parameters::any(const char* key) {
  known_.emplace_back(key);
}

void Parameters::mark_others() {
  for (const auto& [key, value] : object_) {
    if (std::ranges::find(known_, std::string_view(key)) != known_.end()) continue;
    wrong_[key] = fmt::format("{} is not allowed key", std::string_view(key));
  }
}

std::optional<http::Response> Parameters::refusal() {
  if (broken_) return std::move(broken_);
  if (!others_allowed_) mark_others();
  if (wrong_.empty()) return std::nullopt;
  return invalid_parameters(wrong_);
}

}  // namespace onggi::api::backendai
