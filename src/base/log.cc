#include "base/log.h"

#include <memory>
#include <string>
#include <type_traits>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace onggi {
namespace {

// The logger's name tells its format; spdlog's registry is the process's one log sink.
constexpr const char* kTextLogger = "onggi.text";
constexpr const char* kJsonLogger = "onggi.json";
constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})";

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Escapes for a JSON string and for a quoted text value alike, so that no value can break a line.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

bool is_plain(std::string_view text) {
  return !text.empty() && text.find_first_of("\" =\\\n\r\t") == std::string_view::npos;
}

void append_value(std::string& out, const LogField::Value& value, bool quote_always) {
  std::visit(
      [&](const auto& v) {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, std::string_view>) {
          if (quote_always || !is_plain(v)) {
            append_quoted(out, v);
          } else {
            out += v;
          }
        } else {
          fmt::format_to(std::back_inserter(out), "{}", v);
        }
      },
      value);
}

std::string as_text(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value, false);
  }
  return line;
}

std::string as_json(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = "\"event\":";
  append_quoted(line, event);
  for (const LogField& field : fields) {
    line += ',';
    append_quoted(line, field.key);
    line += ':';
    append_value(line, field.value, true);
  }
  return line;
}

}  // namespace

void set_up_log(const LogOptions& options) {
  const bool json = options.format == LogFormat::json;
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(json ? kJsonLogger : kTextLogger, sink);
  logger->set_pattern(json ? kJsonPattern : kTextPattern);
  logger->set_level(to_spdlog(options.level));
  spdlog::set_default_logger(std::move(logger));
}

Result<LogLevel> parse_log_level(std::string_view text) {
  if (text == "debug") return LogLevel::debug;
  if (text == "info") return LogLevel::info;
  if (text == "warning") return LogLevel::warning;
  if (text == "error") return LogLevel::error;
  return fail(ErrorCode::invalid_argument,
              fmt::format("unknown log level '{}': use debug, info, warning or error", text));
}

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  spdlog::logger* logger = spdlog::default_logger_raw();
  const bool json = logger->name() == kJsonLogger;
  if (!json && logger->name() != kTextLogger) {
    if (level >= LogLevel::warning) fmt::print(stderr, "{}\n", as_text(event, fields));
    return;
  }
  if (!logger->should_log(to_spdlog(level))) return;
  logger->log(to_spdlog(level), "{}", json ? as_json(event, fields) : as_text(event, fields));
}

}  // namespace onggi
