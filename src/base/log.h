#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace onggi {

enum class LogLevel { debug, info, warning, error };
enum class LogFormat { text, json };

struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;
  std::string_view key;
  Value value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, std::int64_t v) : key(k), value(v) {}
  LogField(std::string_view k, int v) : key(k), value(std::int64_t{v}) {}
  LogField(std::string_view k, std::uint64_t v) : key(k), value(v) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
};

struct LogOptions {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
};

// Sets the process's log sink (standard error). Called once by each main, before any thread starts;
// without it events of level warning and above go to standard error as text.
void set_up_log(const LogOptions& options);
Result<LogLevel> parse_log_level(std::string_view text);

// Writes one event: a fixed phrase and fields, never prose with values in it. Thread-safe.
void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace onggi

#define LOG_DEBUG(...) ::onggi::log_event(::onggi::LogLevel::debug, __VA_ARGS__)
#define LOG_INFO(...) ::onggi::log_event(::onggi::LogLevel::info, __VA_ARGS__)
#define LOG_WARN(...) ::onggi::log_event(::onggi::LogLevel::warning, __VA_ARGS__)
#define LOG_ERROR(...) ::onggi::log_event(::onggi::LogLevel::error, __VA_ARGS__)
