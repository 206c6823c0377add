#include "client/client.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/encoding.h"

namespace onggi::client {

namespace json = boost::json;

namespace {

constexpr std::size_t kPageItems = 10'000;
constexpr Duration kPauseStep = std::chrono::milliseconds(100);

bool is_idempotent(std::string_view method) {
  return method != "POST" && method != "PATCH";
}

// Empty when `holder` is no object or has no such text: the daemon's answers are not trusted to be
// well-formed.
std::string text_at(const json::value& holder, std::string_view key) {
  const json::object* object = holder.if_object();
  const json::value* value = object == nullptr ? nullptr : object->if_contains(key);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

std::uint64_t number_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code error;
  const auto number = value == nullptr ? 0 : value->to_number<std::uint64_t>(error);
  return error ? 0 : number;
}

Result<json::value> parse_json(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) {
    return fail(ErrorCode::internal,
                fmt::format("the daemon answered something that is not JSON: {}", error.message()));
  }
  return value;
}

std::string with_query(std::string_view target, std::string_view query) {
  return fmt::format("{}{}{}", target, target.find('?') == std::string_view::npos ? '?' : '&',
                     query);
}

Result<RemoteEntry> parse_entry(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return fail(ErrorCode::internal, "the daemon sent a malformed entry");
  RemoteEntry entry;
  entry.path = text_at(value, "path");
  entry.kind = text_at(value, "kind");
  entry.etag = text_at(value, "etag");
  entry.size_bytes = number_at(*object, "size_bytes");
  entry.mode = static_cast<std::uint32_t>(number_at(*object, "mode"));
  ASSIGN_OR_RETURN(entry.modified, parse_time(text_at(value, "modified")));
  return entry;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

Client::Client(Connection connection, Clock& clock, RetryOptions retry)
    : http_(std::move(connection)), clock_(clock), retry_(retry) {}

bool Client::may_repeat(const HttpRequest& request, const Attempt& attempt) const {
  if (attempt.response) return attempt.response->status == 503;
  if (!attempt.response.error().retryable()) return false;
  return !attempt.reached || is_idempotent(request.method);
}

Duration Client::pause_before(int attempt, const Attempt& last) const {
  Duration pause = retry_.first_pause * (1 << attempt);
  if (last.response) {
    int seconds = 0;
    const std::string_view text = last.response->header("retry-after").value_or("");
    std::from_chars(text.data(), text.data() + text.size(), seconds);
    pause = std::max<Duration>(pause, std::chrono::seconds(seconds));
  }
  return std::min(pause, retry_.pause_max);
}

Status Client::pause(Duration duration, const CancelCheck& cancelled) {
  const SteadyTime until = clock_.steady_now() + duration;
  while (clock_.steady_now() < until) {
    if (cancelled && cancelled()) return fail(ErrorCode::cancelled, "interrupted");
    clock_.sleep_for(std::min<Duration>(kPauseStep, until - clock_.steady_now()));
  }
  return {};
}

Result<HttpResponse> Client::perform(const HttpRequest& request, const CallHooks& hooks) {
  ASSIGN_OR_RETURN(HttpResponse response, exchange(request, hooks));
  if (response.status >= 400) return tl::unexpected(error_of(response));
  return response;
}

Result<HttpResponse> Client::exchange(const HttpRequest& request, const CallHooks& hooks) {
  bool delivered = false;
  CallHooks watched = hooks;
  if (hooks.sink) {
    watched.sink = [&](std::span<const std::byte> piece) {
      delivered = true;
      return hooks.sink(piece);
    };
  }
  for (int tried = 1;; ++tried) {
    Attempt attempt = http_.perform(request, watched);
    const bool again = tried < retry_.attempts_max && !delivered && may_repeat(request, attempt);
    if (again) {
      RETURN_IF_ERROR(pause(pause_before(tried - 1, attempt), hooks.cancelled));
      continue;
    }
    return std::move(attempt.response);
  }
}

Result<json::value> Client::call(std::string_view method, std::string target,
                                 const json::value& body, const CancelCheck& cancelled) {
  HttpRequest request{.method = std::string(method), .target = std::move(target)};
  std::string text;
  if (!body.is_null()) {
    text = json::serialize(body);
    request.headers.emplace_back("Content-Type", "application/json");
    request.body = as_bytes(text);
  }
  ASSIGN_OR_RETURN(const HttpResponse response, perform(request, {.cancelled = cancelled}));
  if (response.body.empty()) return json::value(nullptr);
  return parse_json(response.body);
}

Result<json::array> Client::call_all(std::string_view target, const CancelCheck& cancelled) {
  json::array all;
  std::string cursor;
  do {
    std::string page = with_query(target, fmt::format("limit={}", kPageItems));
    if (!cursor.empty()) page = with_query(page, "cursor=" + percent_encode(cursor));
    ASSIGN_OR_RETURN(json::value answer, call("GET", page, nullptr, cancelled));
    json::object* object = answer.if_object();
    json::value* items = object == nullptr ? nullptr : object->if_contains("items");
    if (items == nullptr || !items->is_array()) {
      return fail(ErrorCode::internal, "the daemon answered a list without items");
    }
    std::ranges::move(items->get_array(), std::back_inserter(all));
    cursor = text_at(answer, "next_cursor");
  } while (!cursor.empty());
  return all;
}

Result<std::string> Client::find_vfolder(std::string_view volume, std::string_view name) {
  ASSIGN_OR_RETURN(const json::array found,
                   call_all(fmt::format("/v1/vfolders?volume={}&name={}", percent_encode(volume),
                                        percent_encode(name))));
  if (found.empty()) return tl::unexpected(unknown_vfolder(volume, name));
  if (found.size() > 1) {
    // Another tenant's share may have the name of an own vfolder: the own one is meant.
    for (const json::value& item : found) {
      if (text_at(item, "permission") == "owner") {
        return text_at(item, "id");
      }
    }
  }
  return text_at(found.front(), "id");
}

Error Client::unknown_vfolder(std::string_view volume, std::string_view name) {
  Result<json::array> volumes = json::array();
  if (Result<json::value> answer = call("GET", "/v1/volumes"); answer && answer->is_object()) {
    if (const json::value* items = answer->get_object().if_contains("items");
        items != nullptr && items->is_array()) {
      volumes = items->get_array();
    }
  }
  std::vector<std::string> volume_names;
  for (const json::value& item : *volumes) volume_names.push_back(text_at(item, "name"));
  if (!volume_names.empty() && std::ranges::find(volume_names, volume) == volume_names.end()) {
    const auto meant = closest(volume, volume_names);
    return {ErrorCode::not_found,
            fmt::format("no volume '{}'{}", volume,
                        meant ? fmt::format("; did you mean '{}'?", *meant)
                              : "; `onggi volume list` shows those there are")};
  }
  std::vector<std::string> names;
  const auto mine = call_all("/v1/vfolders?volume=" + percent_encode(volume));
  if (mine) {
    for (const json::value& item : *mine) names.push_back(text_at(item, "name"));
  }
  const auto meant = closest(name, names);
  return {ErrorCode::not_found,
          fmt::format(
              "no vfolder '{}' on volume '{}'{}", name, volume,
              meant ? fmt::format("; did you mean '{}'?", *meant)
                    : fmt::format("; make it with `onggi vfolder create {}/{}`", volume, name))};
}

Result<std::vector<RemoteEntry>> Client::list(const std::string& vfolder, std::string_view path,
                                              bool recursive, const CancelCheck& cancelled) {
  std::string target = vfolder_target(vfolder, "entries", path);
  if (recursive) target += "?recursive=true";
  ASSIGN_OR_RETURN(const json::array items, call_all(target, cancelled));
  std::vector<RemoteEntry> entries;
  entries.reserve(items.size());
  for (const json::value& item : items) {
    ASSIGN_OR_RETURN(RemoteEntry entry, parse_entry(item));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<RemoteEntry> Client::stat(const std::string& vfolder, std::string_view path) {
  ASSIGN_OR_RETURN(const json::value answer, call("GET", vfolder_target(vfolder, "stat", path)));
  return parse_entry(answer);
}

std::string vfolder_target(std::string_view vfolder, std::string_view what, std::string_view path) {
  return fmt::format("/v1/vfolders/{}/{}/{}", vfolder, what, percent_encode(path, true));
}

ErrorCode parse_error_code(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    if (to_string(static_cast<ErrorCode>(i)) == name) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::internal;
}

Error error_of(const HttpResponse& response) {
  boost::system::error_code ignored;
  const json::value problem = json::parse(response.body, ignored);
  const json::object* object = ignored ? nullptr : problem.if_object();
  if (object == nullptr || !object->contains("code")) {
    return {response.status == 404 ? ErrorCode::not_found : ErrorCode::internal,
            fmt::format("the daemon answered {} without problem details", response.status)};
  }
  std::string message = text_at(problem, "detail");
  if (message.empty()) message = text_at(problem, "title");
  const ErrorCode code = parse_error_code(text_at(problem, "code"));
  if (code == ErrorCode::internal) {
    message += fmt::format(" (request {})", text_at(problem, "request_id"));
  }
  if (code == ErrorCode::unauthenticated) {
    message += ". Give a token by --token, ONGGI_TOKEN or a profile";
  }
  return {code, std::move(message)};
}

Result<UnixTime> parse_time(std::string_view text) {
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = -1;
    if (text.size() >= at + digits) {
      std::from_chars(text.data() + at, text.data() + at + digits, value);
    }
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const bool shaped = text.size() >= 20 && text[10] == 'T' && text.back() == 'Z';
  if (!shaped || !day.ok()) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a time", text));
  }
  const int milliseconds = text.size() >= 24 && text[19] == '.' ? number(20, 3) : 0;
  return UnixTime(std::chrono::sys_days(day)) + std::chrono::hours(number(11, 2)) +
         std::chrono::minutes(number(14, 2)) + std::chrono::seconds(number(17, 2)) +
         std::chrono::milliseconds(milliseconds);
}

std::string format_time(UnixTime time) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day day(days);
  const std::chrono::hh_mm_ss clock(time - days);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::optional<std::string> closest(std::string_view meant, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  std::size_t least = std::max<std::size_t>(1, meant.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(meant, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace onggi::client
