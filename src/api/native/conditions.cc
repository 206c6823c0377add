#include "api/native/conditions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

namespace onggi::api {

namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const std::from_chars_result parsed = std::from_chars(text.begin(), text.end(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.end()) return std::nullopt;
  return value;
}

UnixTime whole_seconds(UnixTime time) {
  return std::chrono::floor<std::chrono::seconds>(time);
}

bool if_range_holds(const http::Headers& headers, const backend::FileInfo& info) {
  const std::optional<std::string_view> condition = headers.get("If-Range");
  if (!condition) return true;
  const std::string_view text = trimmed(*condition);
  // Strong comparison: a weak tag never counts.
  if (text.starts_with('"')) return text == quoted_etag(info.etag);
  return parse_http_date(text) == whole_seconds(info.modified);
}

// "first-last", "first-" or "-count" of a file of `size` bytes.
RangeChoice resolve(std::string_view spec, std::uint64_t size) {
  const std::size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return {};
  const auto first = parse_number(trimmed(spec.substr(0, dash)));
  const auto last = parse_number(trimmed(spec.substr(dash + 1)));
  const bool suffix = dash == 0 && last.has_value();
  const bool open_ended = first && trimmed(spec.substr(dash + 1)).empty();
  if (!suffix && !open_ended && !(first && last && *first <= *last)) return {};
  if (suffix) {
    const std::uint64_t count = std::min(*last, size);
    if (count == 0) return {.kind = RangeKind::unsatisfiable, .range = {}};
    return {.kind = RangeKind::part, .range = {.first = size - count, .length = count}};
  }
  if (*first >= size) return {.kind = RangeKind::unsatisfiable, .range = {}};
  const std::uint64_t end = open_ended ? size - 1 : std::min(*last, size - 1);
  return {.kind = RangeKind::part, .range = {.first = *first, .length = end - *first + 1}};
}

}  // namespace

std::string http_date(UnixTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  return fmt::format(
      "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays.at(std::chrono::weekday(day).c_encoding()),
      static_cast<unsigned>(date.day()), kMonths.at(static_cast<unsigned>(date.month()) - 1),
      static_cast<int>(date.year()), clock.hours().count(), clock.minutes().count(),
      clock.seconds().count());
}

std::optional<UnixTime> parse_http_date(std::string_view text) {
  // Only the one form that senders may generate; others count as absent, which is always safe.
  if (text.size() != 29 || !text.ends_with(" GMT") || text[3] != ',') return std::nullopt;
  const auto* month = std::ranges::find(kMonths, text.substr(8, 3));
  const auto day = parse_number(text.substr(5, 2));
  const auto year = parse_number(text.substr(12, 4));
  const auto hour = parse_number(text.substr(17, 2));
  const auto minute = parse_number(text.substr(20, 2));
  const auto second = parse_number(text.substr(23, 2));
  if (month == kMonths.end() || !day || !year || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date(
      std::chrono::year(static_cast<int>(*year)),
      std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
      std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return UnixTime(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

std::string quoted_etag(std::string_view etag) {
  return fmt::format("\"{}\"", etag);
}

bool names_etag(std::string_view list, std::string_view etag) {
  list = trimmed(list);
  if (list == "*") return true;
  while (!list.empty()) {
    if (list.starts_with("W/")) list.remove_prefix(2);
    const std::size_t close = list.starts_with('"') ? list.find('"', 1) : std::string_view::npos;
    if (close == std::string_view::npos) return false;
    if (list.substr(1, close - 1) == etag) return true;
    list = trimmed(list.substr(close + 1));
    if (list.starts_with(',')) list = trimmed(list.substr(1));
  }
  return false;
}

ReadCondition check_read(const http::Headers& headers, const backend::FileInfo& info) {
  if (const auto match = headers.get("If-Match"); match && !names_etag(*match, info.etag)) {
    return ReadCondition::failed;
  }
  if (const auto none = headers.get("If-None-Match")) {
    return names_etag(*none, info.etag) ? ReadCondition::not_modified : ReadCondition::proceed;
  }
  if (const auto since = headers.get("If-Modified-Since")) {
    const std::optional<UnixTime> time = parse_http_date(trimmed(*since));
    if (time && whole_seconds(info.modified) <= *time) return ReadCondition::not_modified;
  }
  return ReadCondition::proceed;
}

RangeChoice choose_range(const http::Headers& headers, const backend::FileInfo& info) {
  const std::optional<std::string_view> header = headers.get("Range");
  constexpr std::string_view kUnit = "bytes=";
  if (!header || !header->starts_with(kUnit)) return {};
  const std::string_view spec = header->substr(kUnit.size());
  if (spec.find(',') != std::string_view::npos || !if_range_holds(headers, info)) return {};
  return resolve(trimmed(spec), info.size_bytes);
}

Result<WriteConditions> write_conditions(
    const http::Headers& headers, const std::function<Result<backend::FileInfo>()>& current) {
  WriteConditions conditions;
  if (const auto none = headers.get("If-None-Match")) {
    if (trimmed(*none) != "*") {
      return fail(ErrorCode::invalid_argument, "If-None-Match of a write can only be *");
    }
    conditions.if_absent = true;
  }
  if (const auto match = headers.get("If-Match")) {
    const Result<backend::FileInfo> info = current();
    if (!info && info.error().code() != ErrorCode::not_found) return tl::unexpected(info.error());
    if (!info || !names_etag(*match, info->etag)) {
      return fail(ErrorCode::condition_failed, "the file is not the version that If-Match names");
    }
    // Checked again by the commit, so a change in between is seen.
    conditions.if_etag = info->etag;
  }
  return conditions;
}

}  // namespace onggi::api
