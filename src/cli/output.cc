#include "cli/output.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace onggi::cli {

namespace json = boost::json;

namespace {

constexpr std::size_t kGap = 2;

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::good:
      return "\033[32m";
    case Tone::warning:
      return "\033[33m";
    case Tone::bad:
      return "\033[31m";
    case Tone::faint:
      return "\033[2m";
    case Tone::strong:
      return "\033[1m";
  }
  return "";
}

// Columns that UTF-8 text takes: a good guess is one per code point.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

void append_line(std::string& out, std::string_view separator, std::size_t indent) {
  out.append(separator).append(indent, ' ');
}

void append_pretty(std::string& out, const json::value& value, std::size_t indent) {
  const std::size_t inner = indent + 2;
  if (const json::object* object = value.if_object(); object != nullptr && !object->empty()) {
    std::string_view separator = "{\n";
    for (const auto& [key, item] : *object) {
      append_line(out, std::exchange(separator, ",\n"), inner);
      out.append(json::serialize(json::value(key))).append(": ");
      append_pretty(out, item, inner);
    }
    append_line(out, "\n", indent);
    out += '}';
  } else if (const json::array* array = value.if_array(); array != nullptr && !array->empty()) {
    std::string_view separator = "[\n";
    for (const json::value& item : *array) {
      append_line(out, std::exchange(separator, ",\n"), inner);
      append_pretty(out, item, inner);
    }
    append_line(out, "\n", indent);
    out += ']';
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

Terminal Terminal::of(int fd) {
  Terminal terminal;
  terminal.is_terminal = isatty(fd) == 1;
  // Nothing here changes the environment.
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  const char* term = std::getenv("TERM");          // NOLINT(concurrency-mt-unsafe)
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  terminal.colors = terminal.is_terminal && !dumb && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (terminal.is_terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  }
  return terminal;
}

std::string Terminal::paint(std::string_view text, Tone tone) const {
  if (!colors || tone == Tone::plain) return std::string(text);
  return fmt::format("{}{}\033[0m", code_of(tone), text);
}

std::string Table::text(const Terminal& terminal) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = width_of(columns_[i].heading);
    for (const auto& row : rows_) width = std::max(width, width_of(row[i]));
    widths.push_back(width);
  }
  const auto line = [&](const auto& cell_at) {
    std::string out;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_at(i);
      const std::string padding(widths[i] - width_of(cell), ' ');
      out += columns_[i].is_number ? padding + cell : cell + padding;
      out.append(kGap, ' ');
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  std::string out =
      terminal.paint(line([&](std::size_t i) -> const std::string& { return columns_[i].heading; }),
                     Tone::strong) +
      "\n";
  for (const auto& row : rows_) {
    out += line([&](std::size_t i) -> const std::string& { return row[i]; }) + "\n";
  }
  return out;
}

std::string human_size(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kUnits[unit]);
}

std::string exact(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::uint64_t parse_size(std::string_view text, bool& ok) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(parsed.ptr,
                        static_cast<std::size_t>(text.data() + text.size() - parsed.ptr));
  ok = parsed.ec == std::errc() && value >= 0 && value < 1e18;
  constexpr std::string_view kLetters = "kmgt";
  double factor = 1;
  if (!unit.empty() && unit.front() != 'B') {
    const std::size_t at = kLetters.find(static_cast<char>(unit.front() | 0x20));
    ok = ok && at != std::string_view::npos;
    factor = ok ? std::pow(1024.0, static_cast<double>(at + 1)) : 1;
    unit.remove_prefix(1);
    if (unit.starts_with('i')) unit.remove_prefix(1);
  }
  ok = ok && (unit.empty() || unit == "B");
  return ok ? static_cast<std::uint64_t>(value * factor) : 0;
}

const json::value& member(const json::value& object, std::string_view key) {
  static const json::value null;
  const json::object* fields = object.if_object();
  const json::value* found = fields == nullptr ? nullptr : fields->if_contains(key);
  return found == nullptr ? null : *found;
}

std::string text_of(const json::value& object, std::string_view key) {
  const json::value& value = member(object, key);
  if (value.is_null()) return "";
  if (const json::string* text = value.if_string(); text != nullptr) {
    return printable(std::string_view(*text));
  }
  return json::serialize(value);
}

std::uint64_t number_of(const json::value& object, std::string_view key) {
  boost::system::error_code error;
  const auto number = member(object, key).to_number<std::uint64_t>(error);
  return error ? 0 : number;
}

std::string pretty(const json::value& value) {
  std::string out;
  append_pretty(out, value, 0);
  return out + "\n";
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return out;
}

}  // namespace onggi::cli
