#include "daemon/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "daemon/toml.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX wants it declared so

namespace onggi::daemon {

namespace {

tl::unexpected<Error> config_error(std::string_view origin, std::string_view what) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", origin, what));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// ". Did you mean x?" when some key is near enough to be meant.
std::string suggestion(std::string_view key) {
  std::string best;
  std::size_t distance = std::max<std::size_t>(3, key.size() / 3) + 1;
  const std::string field = fmt::format(".{}", key.substr(key.rfind('.') + 1));
  const auto consider = [&](std::string_view candidate) {
    // A right name in the wrong section is the nearest there is.
    const std::size_t d = candidate.ends_with(field) ? 1 : edit_distance(key, candidate);
    if (d >= distance) return;
    distance = d;
    best = candidate;
  };
  for (const Setting& setting : settings()) consider(setting.key);
  consider("volumes");
  constexpr std::string_view kAll = "onggid --print-config shows all";
  return best.empty() ? std::string(kAll) : fmt::format("did you mean {}? ({})", best, kAll);
}

tl::unexpected<Error> unknown_key(std::string_view origin, std::string_view key) {
  return config_error(origin, fmt::format("there is no setting {}; {}", key, suggestion(key)));
}

std::string wanted(const Setting& setting, const Field& field) {
  if (std::holds_alternative<bool*>(field)) return "true or false";
  if (std::holds_alternative<std::vector<std::string>*>(field)) return "a list of strings";
  if (std::holds_alternative<std::uint64_t*>(field)) {
    return fmt::format("a whole number from {} to {}", setting.min, setting.max);
  }
  if (setting.values.empty()) return "a string";
  return fmt::format("one of {}", fmt::join(setting.values, ", "));
}

tl::unexpected<Error> wrong_value(std::string_view origin, const Setting& setting,
                                  const Field& field, std::string_view got) {
  return config_error(origin, fmt::format("{} must be {}, not {}. {}", setting.key,
                                          wanted(setting, field), got, setting.doc));
}

// Whether the value lies within what the setting allows; the type is right already.
bool allowed(const Setting& setting, const Field& field) {
  if (auto* const* number = std::get_if<std::uint64_t*>(&field)) {
    return **number >= setting.min && **number <= setting.max;
  }
  if (auto* const* text = std::get_if<std::string*>(&field)) {
    return setting.values.empty() ||
           std::ranges::find(setting.values, **text) != setting.values.end();
  }
  return true;
}

// One overload for each type of setting; false when the node is of another.
bool assign_to(const toml::node& node, std::string* target) {
  const auto value = node.value_exact<std::string>();
  if (value) *target = *value;
  return value.has_value();
}

bool assign_to(const toml::node& node, std::uint64_t* target) {
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0) return false;
  *target = static_cast<std::uint64_t>(*value);
  return true;
}

bool assign_to(const toml::node& node, bool* target) {
  const auto value = node.value_exact<bool>();
  if (value) *target = *value;
  return value.has_value();
}

bool assign_to(const toml::node& node, std::vector<std::string>* target) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return false;
  target->clear();
  return std::ranges::all_of(*array, [target](const toml::node& item) {
    return assign_to(item, &target->emplace_back());
  });
}

bool assign(const toml::node& node, const Field& field) {
  return std::visit([&node](auto* target) { return assign_to(node, target); }, field);
}

bool assign_text_to(std::string_view text, std::string* target) {
  *target = text;
  return true;
}

bool assign_text_to(std::string_view text, std::uint64_t* target) {
  const std::from_chars_result parsed = std::from_chars(text.begin(), text.end(), *target);
  return parsed.ec == std::errc() && parsed.ptr == text.end();
}

bool assign_text_to(std::string_view text, bool* target) {
  *target = text == "true";
  return text == "true" || text == "false";
}

// "a,b" is a list of two.
bool assign_text_to(std::string_view text, std::vector<std::string>* target) {
  target->clear();
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) target->emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

bool assign_text(std::string_view text, const Field& field) {
  return std::visit([text](auto* target) { return assign_text_to(text, target); }, field);
}

// Fills a Config from one file. `name` is what errors call the file.
class FileReader {
 public:
  FileReader(Config& config, std::string_view name) : config_(config), name_(name) {}

  Status read(const toml::table& table, const std::string& section) {
    for (const auto& [name, node] : table) {
      RETURN_IF_ERROR(read_node(section + std::string(name.str()), node));
    }
    return {};
  }

 private:
  Status read_node(const std::string& key, const toml::node& node) {
    if (key == "volumes") return read_volumes(node);
    if (node.is_table() && is_section(key)) return read(*node.as_table(), key + ".");
    return read_setting(key, node);
  }

  std::string origin(const toml::node& node) const {
    return fmt::format("{}:{}", name_, node.source().begin.line);
  }

  static bool is_section(const std::string& key) {
    return std::ranges::any_of(known(),
                               [&](const Setting& s) { return s.key.starts_with(key + "."); });
  }

  static std::vector<Setting> known() { return settings(); }

  Status read_setting(const std::string& key, const toml::node& node) {
    for (const Setting& setting : known()) {
      if (setting.key != key) continue;
      const Field field = setting.field(config_);
      if (assign(node, field) && allowed(setting, field)) return {};
      return wrong_value(origin(node), setting, field, shown(node));
    }
    return unknown_key(origin(node), key);
  }

  Status read_volumes(const toml::node& node) {
    const toml::array* array = node.as_array();
    if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
      return config_error(origin(node), "volumes are tables: write [[volumes]] with two brackets");
    }
    for (const toml::node& item : *array) RETURN_IF_ERROR(read_volume(*item.as_table()));
    return {};
  }

  Status read_volume(const toml::table& table) {
    VolumeTable volume;
    for (const auto& [name, node] : table) {
      const std::string key(name.str());
      const auto text = node.value<std::string>();
      if (node.is_table() || node.is_array()) {
        return config_error(origin(node), fmt::format("volumes.{} must be a plain value", key));
      }
      const std::string value = text ? *text : shown(node);
      if (key == "name") {
        volume.name = value;
      } else if (key == "backend") {
        volume.backend = value;
      } else {
        volume.options[key] = value;
      }
    }
    if (volume.name.empty() || volume.backend.empty()) {
      return config_error(origin(table),
                          R"(a volume needs a name and a backend, such as backend = "posix")");
    }
    if (std::ranges::find(config_.volumes, volume.name, &VolumeTable::name) !=
        config_.volumes.end()) {
      return config_error(origin(table), fmt::format("two volumes are called {}", volume.name));
    }
    config_.volumes.push_back(std::move(volume));
    return {};
  }

  Config& config_;
  std::string_view name_;
};

std::string variable_of(std::string_view key) {
  std::string name = "ONGGI_";
  for (const char c : key) {
    const bool lower = c >= 'a' && c <= 'z';
    name += c == '.' ? '_' : (lower ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return name;
}

// Relations that no single setting shows.
Status check_together(const Config& config) {
  const bool certificate = !config.server.tls_certificate_file.empty();
  if (certificate != !config.server.tls_key_file.empty()) {
    return fail(
        ErrorCode::invalid_argument,
        "server.tls_certificate_file and server.tls_key_file belong together: set both or none");
  }
  for (const std::string& profile : config.active.prewarm) {
    if (std::ranges::find(config.active.profiles, profile) == config.active.profiles.end()) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("active.prewarm names {}, which is not among active.profiles", profile));
    }
  }
  return {};
}

}  // namespace

Environment onggi_environment() {
  Environment found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (text.starts_with("ONGGI_") && equals != std::string_view::npos) {
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return found;
}

Status set_setting(Config& config, std::string_view key, std::string_view text,
                   std::string_view origin) {
  for (const Setting& setting : settings()) {
    if (setting.key != key) continue;
    const Field field = setting.field(config);
    if (assign_text(text, field) && allowed(setting, field)) return {};
    return wrong_value(origin, setting, field, fmt::format("\"{}\"", text));
  }
  return unknown_key(origin, key);
}

Result<Config> parse_config(std::string_view text, std::string_view name,
                            const Environment& environment) {
  Config config;
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return config_error(fmt::format("{}:{}", name, parsed.error().source().begin.line),
                        fmt::format("not TOML: {}", parsed.error().description()));
  }
  RETURN_IF_ERROR(FileReader(config, name).read(parsed.table(), ""));
  for (const Setting& setting : settings()) {
    const auto found = environment.find(variable_of(setting.key));
    if (found == environment.end()) continue;
    RETURN_IF_ERROR(set_setting(config, setting.key, found->second, found->first));
  }
  RETURN_IF_ERROR(check_together(config));
  return config;
}

Result<Config> load_config(const std::string& path, const Environment& environment) {
  if (path.empty()) return parse_config("", "", environment);
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail_errno(fmt::format("the configuration {} cannot be read", path));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_config(text, path, environment);
}

Result<std::string> data_path(const Config& config) {
  if (!config.data.path.empty()) return config.data.path;
  if (geteuid() == 0) return "/var/lib/onggi";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read before the first thread starts
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    return fail(ErrorCode::invalid_argument,
                "data.path is needed, since HOME is not set: start with --data PATH");
  }
  return fmt::format("{}/.local/share/onggi", home);
}

}  // namespace onggi::daemon
