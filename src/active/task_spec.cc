#include "active/task_spec.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "active/sandbox/order.h"

namespace onggi::active {

namespace {

namespace json = boost::json;
using std::string_view_literals::operator""sv;

constexpr std::size_t kPathBytesMax = 4096;
constexpr std::size_t kDepthMax = 32;
constexpr std::size_t kEnvironmentMax = 256;

Error bad(std::string_view field, std::string_view wanted) {
  return {ErrorCode::invalid_argument, fmt::format("spec: {} must be {}", field, wanted)};
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Result<std::string> name_field(const json::object& object, std::string_view field) {
  const json::value* value = object.if_contains(field);
  if (value == nullptr || !value->is_string() || !is_name(value->get_string())) {
    return tl::unexpected(bad(field, "a name of a-z, 0-9 and _"));
  }
  return std::string(value->get_string());
}

// Absolute and normal; the kernel resolves it inside the sandbox, where it can do no harm, but two
// spellings of one place would hide mounts behind each other.
Result<std::string> sandbox_path(const json::value& value, std::string_view field) {
  const json::string* text = value.if_string();
  const std::string_view path = text == nullptr ? std::string_view() : std::string_view(*text);
  const bool plain = path.size() > 1 && path.size() <= kPathBytesMax && path.front() == '/' &&
                     path.back() != '/' && !has(path, "\0"sv);
  const std::string framed = std::string(path) + "/";
  if (!plain || has(framed, "//") || has(framed, "/./") || has(framed, "/../")) {
    return tl::unexpected(bad(field, "an absolute path without '..', '.' and '//'"));
  }
  return std::string(path);
}

Status read_limit(const json::object& limits, std::string_view name, std::uint64_t most,
                  std::uint64_t& value) {
  const json::value* given = limits.if_contains(name);
  if (given == nullptr) {
    value = std::min(value, most);
    return {};
  }
  const std::string field = fmt::format("limits.{}", name);
  boost::system::error_code error;
  const auto number = given->to_number<std::uint64_t>(error);
  if (error || number == 0 || given->is_double()) {
    return tl::unexpected(bad(field, "a whole number above 0"));
  }
  if (number > most) {
    return fail(ErrorCode::too_large,
                fmt::format("spec: {} is {}; this node allows {} (active.limits_max.{})", field,
                            number, most, name));
  }
  value = number;
  return {};
}

Status read_limits(const json::object& spec, const SpecRules& rules, TaskLimits& limits) {
  limits = rules.limits_default;
  const json::object none;
  const json::object* given = &none;
  if (const json::value* value = spec.if_contains("limits")) {
    given = value->if_object();
    if (given == nullptr) return tl::unexpected(bad("limits", "an object"));
  }
  const std::array<std::pair<std::string_view, std::uint64_t TaskLimits::*>, 6> fields = {{
      {"cpu_seconds", &TaskLimits::cpu_seconds},
      {"memory_bytes", &TaskLimits::memory_bytes},
      {"wall_seconds", &TaskLimits::wall_seconds},
      {"output_bytes", &TaskLimits::output_bytes},
      {"processes", &TaskLimits::processes},
      {"arena_bytes", &TaskLimits::arena_bytes},
  }};
  for (const auto& item : *given) {
    const bool known =
        std::ranges::any_of(fields, [&](const auto& field) { return item.key() == field.first; });
    if (!known)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("spec: no limit is called {}", std::string_view(item.key())));
  }
  for (const auto& [name, member] : fields) {
    RETURN_IF_ERROR(read_limit(*given, name, rules.limits_max.*member, limits.*member));
  }
  return {};
}

Status read_mounts(const json::object& spec, TaskSpec& result) {
  const json::value* value = spec.if_contains("mounts");
  if (value == nullptr) return {};
  const json::array* mounts = value->if_array();
  if (mounts == nullptr || mounts->size() > kMountsMax) {
    return tl::unexpected(bad("mounts", fmt::format("a list of at most {}", kMountsMax)));
  }
  std::set<std::string> seen;
  for (const json::value& item : *mounts) {
    const json::object* mount = item.if_object();
    const json::value* vfolder = mount == nullptr ? nullptr : mount->if_contains("vfolder");
    const json::value* path = mount == nullptr ? nullptr : mount->if_contains("path");
    if (vfolder == nullptr || !vfolder->is_string() || path == nullptr || mount->size() != 2) {
      return tl::unexpected(bad("mounts", R"(a list of {"vfolder": uuid, "path": "/…"})"));
    }
    ASSIGN_OR_RETURN(const Uuid id, Uuid::parse(std::string_view(vfolder->get_string())));
    ASSIGN_OR_RETURN(std::string place, sandbox_path(*path, "mounts.path"));
    if (!seen.insert(place).second) {
      return fail(ErrorCode::invalid_argument, fmt::format("spec: two mounts at {}", place));
    }
    result.mounts.push_back({.vfolder = id, .path = std::move(place)});
  }
  // Outer before inner, or the outer one would hide the inner.
  std::ranges::sort(result.mounts, {}, &TaskMount::path);
  return {};
}

Status check_environment(const json::object& spec) {
  const json::value* value = spec.if_contains("env");
  if (value == nullptr) return {};
  const json::object* environment = value->if_object();
  const bool fine = environment != nullptr && environment->size() <= kEnvironmentMax &&
                    std::ranges::all_of(*environment, [](const auto& item) {
                      return !item.key().empty() && !has(item.key(), "=") &&
                             !has(item.key(), "\0"sv) && item.value().is_string() &&
                             !has(item.value().get_string(), "\0"sv);
                    });
  if (!fine) return tl::unexpected(bad("env", "an object of strings"));
  return {};
}

Status read_workers(const json::object& spec, std::size_t most, std::size_t& workers) {
  const json::value* value = spec.if_contains("workers");
  if (value == nullptr) return {};
  boost::system::error_code error;
  const auto number = value->to_number<std::size_t>(error);
  if (error || number == 0 || value->is_double()) {
    return tl::unexpected(bad("workers", "a whole number above 0"));
  }
  if (number > most) {
    return fail(ErrorCode::too_large,
                fmt::format("spec: {} workers; a task may have {} on this node", number, most));
  }
  workers = number;
  return {};
}

// What the workers are told: the client's own fields but for those that are the daemon's business.
std::string start_fields(const json::object& spec, const TaskSpec& result) {
  json::object start;
  for (const char* field : {"env", "options"}) {
    const json::value* value = spec.if_contains(field);
    start[field] = value == nullptr ? json::value(json::object()) : *value;
  }
  start["entry"] = result.entry;
  start["profile"] = result.profile;
  start["workers"] = result.workers;
  start["cwd"] = result.cwd;
  json::array mounts;
  for (const TaskMount& mount : result.mounts) {
    mounts.push_back(json::object{{"vfolder", mount.vfolder.to_string()}, {"path", mount.path}});
  }
  start["mounts"] = std::move(mounts);
  return json::serialize(start);
}

}  // namespace

Result<TaskSpec> parse_task_spec(std::string_view text, const SpecRules& rules) {
  json::parse_options options;
  options.max_depth = kDepthMax;
  boost::system::error_code error;
  const json::value value = json::parse(text, error, {}, options);
  const json::object* spec = error ? nullptr : value.if_object();
  if (spec == nullptr) return fail(ErrorCode::invalid_argument, "spec: not a JSON object");
  constexpr std::array<std::string_view, 8> kFields = {"profile", "entry", "workers", "mounts",
                                                       "cwd",     "env",   "options", "limits"};
  for (const auto& item : *spec) {
    if (std::ranges::find(kFields, std::string_view(item.key())) == kFields.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("spec: no field is called {}", std::string_view(item.key())));
    }
  }
  TaskSpec result;
  ASSIGN_OR_RETURN(result.profile, name_field(*spec, "profile"));
  ASSIGN_OR_RETURN(result.entry, name_field(*spec, "entry"));
  RETURN_IF_ERROR(read_workers(*spec, rules.workers_max, result.workers));
  RETURN_IF_ERROR(read_mounts(*spec, result));
  RETURN_IF_ERROR(check_environment(*spec));
  result.cwd = "/tmp";
  if (const json::value* cwd = spec->if_contains("cwd")) {
    // A process in a container often stands at "/". As a mount's place it would hide the sandbox.
    const json::string* place = cwd->if_string();
    const bool root = place != nullptr && *place == "/";
    ASSIGN_OR_RETURN(result.cwd, root ? std::string("/") : sandbox_path(*cwd, "cwd"));
  }
  RETURN_IF_ERROR(read_limits(*spec, rules, result.limits));
  result.start_fields = start_fields(*spec, result);
  return result;
}

}  // namespace onggi::active
