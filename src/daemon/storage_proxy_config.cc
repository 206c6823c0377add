#include "daemon/storage_proxy_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/encoding.h"
#include "daemon/toml.h"

namespace onggi::daemon {
namespace {

// A number and the unit after it: "1.5g" is {1.5, "g"}.
std::optional<std::pair<double, std::string>> split_unit(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0)) return std::nullopt;
  std::string unit = ascii_lower({rest, text.data() + text.size()});
  std::erase(unit, ' ');
  return std::pair(value, unit);
}

std::string dashed(std::string_view key) {
  std::string out(key);
  std::ranges::replace(out, '_', '-');
  return out;
}

std::optional<HostPort> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  HostPort address{.host = std::string(text.substr(0, colon))};
  const std::string_view port = text.substr(colon + 1);
  const auto [rest, error] = std::from_chars(port.begin(), port.end(), address.port);
  if (error != std::errc() || rest != port.end()) return std::nullopt;
  if (address.host.starts_with('[') && address.host.ends_with(']')) {  // IPv6
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  return address;
}

// One table of the file. What it is asked for is known; the rest is warned about. The first error
// of a whole reading is kept.
class Section {
 public:
  Section(const toml::table* table, std::string name, const std::string& origin,
          std::optional<Error>& error, std::vector<std::string>& warnings)
      : table_(table),
        name_(std::move(name)),
        origin_(origin),
        error_(error),
        warnings_(warnings) {}
  // Another table of the same reading.
  Section(const toml::table* table, std::string name, const Section& of)
      : Section(table, std::move(name), of.origin_, of.error_, of.warnings_) {}

  bool exists() const { return table_ != nullptr; }

  const toml::node* find(std::string_view key) {
    known_.emplace(key);
    if (table_ == nullptr) return nullptr;
    for (const auto& [name, node] : *table_) {
      if (dashed(name.str()) == key) return &node;
    }
    return nullptr;
  }

  Section table(std::string_view key) {
    const toml::node* node = find(key);
    const toml::table* below = node == nullptr ? nullptr : node->as_table();
    if (node != nullptr && below == nullptr) wrong(key, "must be a table");
    return {below, full(key), *this};
  }

  std::string text(std::string_view key, std::string_view otherwise = "") {
    const toml::node* node = find(key);
    if (node == nullptr) return std::string(otherwise);
    if (const auto value = node->value_exact<std::string>()) return *value;
    if (const auto value = node->value_exact<std::int64_t>()) return std::to_string(*value);
    wrong(key, "must be a string");
    return {};
  }

  std::string required_text(std::string_view key) {
    if (find(key) == nullptr) wrong(key, "is missing");
    return text(key);
  }

  bool flag(std::string_view key, bool otherwise) {
    const toml::node* node = find(key);
    if (node == nullptr) return otherwise;
    const auto value = node->value_exact<bool>();
    if (!value) wrong(key, "must be true or false");
    return value.value_or(otherwise);
  }

  std::uint64_t number(std::string_view key, std::uint64_t otherwise) {
    const toml::node* node = find(key);
    if (node == nullptr) return otherwise;
    const auto value = node->value_exact<std::int64_t>();
    if (value && *value >= 0) return static_cast<std::uint64_t>(*value);
    wrong(key, "must be a whole number from 0");
    return otherwise;
  }

  // "host:port", or {host, port}.
  std::optional<HostPort> address(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    auto read = address_of(*node);
    if (!read) wrong(key, R"(must be "host:port" or { host = "…", port = … })");
    return read;
  }

  std::vector<HostPort> addresses(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const toml::array* list = node->as_array();
    std::vector<HostPort> out;
    for (std::size_t i = 0; i < (list == nullptr ? 1 : list->size()); ++i) {
      const auto read = address_of(list == nullptr ? *node : *list->get(i));
      if (!read) {
        wrong(key, R"(must be "host:port" or { host = "…", port = … }, or a list of them)");
        return {};
      }
      out.push_back(*read);
    }
    return out;
  }

  // Keys of the Python proxy that say nothing here.
  void ignore(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) known_.emplace(key);
  }

  void wrong(std::string_view key, std::string_view what) {
    if (!error_) {
      error_ =
          Error(ErrorCode::invalid_argument, fmt::format("{}: {} {}", origin_, full(key), what));
    }
  }

  void warn_of_others() const {
    if (table_ == nullptr) return;
    for (const auto& [name, node] : *table_) {
      if (known_.contains(dashed(name.str()))) continue;
      warnings_.push_back(fmt::format("{}: nobody knows the key {}", origin_, full(name.str())));
    }
  }

  const toml::table* raw() const { return table_; }

 private:
  std::string full(std::string_view key) const {
    return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
  }

  static std::optional<HostPort> address_of(const toml::node& node) {
    if (const auto text = node.value_exact<std::string>()) return parse_address(*text);
    const toml::table* pair = node.as_table();
    if (pair == nullptr) return std::nullopt;
    const auto host = (*pair)["host"].value_exact<std::string>();
    const auto port = (*pair)["port"].value_exact<std::int64_t>();
    if (!host || !port || *port < 0 || *port > 65535) return std::nullopt;
    return HostPort{.host = *host, .port = static_cast<std::uint16_t>(*port)};
  }

  const toml::table* table_;
  const std::string name_;
  const std::string& origin_;
  std::optional<Error>& error_;
  std::vector<std::string>& warnings_;
  std::set<std::string, std::less<>> known_;
};

std::string absolute(const std::string& path, const std::string& file) {
  if (path.empty()) return path;
  const auto folder = std::filesystem::absolute(file).parent_path();
  return (folder / path).lexically_normal().string();
}

void read_proxy(Section section, StorageProxyConfig& config) {
  config.node_id = section.required_text("node-id");
  config.token_secret = section.required_text("secret");
  const std::string expire = section.required_text("session-expire");
  if (const auto span = parse_time_span(expire)) {
    config.session_expire = *span;
  } else {
    section.wrong("session-expire", R"(must be a time like "1d" or 3600)");
  }
  config.scandir_limit = section.number("scandir-limit", config.scandir_limit);
  if (const auto size = parse_binary_size(section.text("max-upload-size", "100g"))) {
    config.max_upload_bytes = *size;
  } else {
    section.wrong("max-upload-size", R"(must be a size like "100g")");
  }
  config.auto_quota_scope_creation = section.flag("allow-auto-quota-scope-creation", true);
  config.user = section.text("user");
  config.group = section.text("group");
  section.ignore({"ipc-base-path", "num-proc", "pid-file", "event-loop", "aiomonitor-port",
                  "aiomonitor-termui-port", "aiomonitor-webui-port", "use-watcher",
                  "watcher-insock-path-prefix", "watcher-outsock-path-prefix", "volume-stats"});
  section.warn_of_others();
}

void read_listener(Section& section, const std::string& file, StorageProxyListener& listener) {
  if (const auto address = section.address("service-addr")) listener.address = *address;
  const std::string certificate = section.text("ssl-cert");
  const std::string key = section.text("ssl-privkey");
  if (!section.flag("ssl-enabled", false)) return;
  if (certificate.empty() || key.empty()) {
    section.wrong("ssl-enabled", "is true, which needs ssl-cert and ssl-privkey, too");
  }
  listener.certificate_file = absolute(certificate, file);
  listener.key_file = absolute(key, file);
}

void read_api(Section section, const std::string& file, StorageProxyConfig& config) {
  Section client = section.table("client");
  read_listener(client, file, config.client);
  client.warn_of_others();
  Section manager = section.table("manager");
  read_listener(manager, file, config.manager);
  if (const auto internal = manager.address("internal-addr")) config.internal = *internal;
  config.manager_secret = manager.required_text("secret");
  manager.ignore({"announce-addr", "announce-internal-addr"});
  manager.warn_of_others();
  section.warn_of_others();
}

void read_etcd(Section section, const Environment& environment, StorageProxyConfig& config) {
  const auto from_environment = [&environment](const char* name, std::string& target) {
    const auto found = environment.find(name);
    if (found != environment.end() && !found->second.empty()) target = found->second;
  };
  config.etcd_namespace = section.text("namespace", config.etcd_namespace);
  config.etcd = section.addresses("addr");
  config.etcd_user = section.text("user");
  config.etcd_password = section.text("password");
  section.warn_of_others();
  from_environment("BACKEND_NAMESPACE", config.etcd_namespace);
  from_environment("BACKEND_ETCD_USER", config.etcd_user);
  from_environment("BACKEND_ETCD_PASSWORD", config.etcd_password);
  std::string address;
  from_environment("BACKEND_ETCD_ADDR", address);
  if (address.empty()) return;
  if (const auto read = parse_address(address)) {
    config.etcd = {*read};
  } else {
    section.wrong("addr",
                  fmt::format("is \"{}\" by BACKEND_ETCD_ADDR; it must be host:port", address));
  }
}

// A vendor's key as text; its backend knows what it means.
std::string option_text(const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  return text ? *text : shown(node);
}

void read_volumes(Section section, const std::string& file, StorageProxyConfig& config) {
  if (!section.exists()) return;
  for (const auto& [name, node] : *section.raw()) {
    // By its own name: dashes and underscores are part of it.
    Section table(node.as_table(), fmt::format("volume.{}", name.str()), section);
    if (!table.exists()) {
      section.wrong(name.str(), "must be a table");
      continue;
    }
    StorageProxyVolume volume{.name = std::string(name.str())};
    volume.backend = table.required_text("backend");
    volume.path = absolute(table.required_text("path"), file);
    volume.fsprefix = table.text("fsprefix", ".");
    const Section options = table.table("options");
    if (options.exists()) {
      for (const auto& [key, value] : *options.raw()) {
        volume.options.emplace(key.str(), option_text(value));
      }
    }
    table.warn_of_others();
    config.volumes.push_back(std::move(volume));
  }
}

}  // namespace

std::optional<std::uint64_t> parse_binary_size(std::string_view text) {
  const auto split = split_unit(text);
  if (!split) return std::nullopt;
  std::string unit = split->second;
  for (const std::string_view tail : {"ib", "b"}) {  // "100GiB" is "100g"
    if (unit.ends_with(tail)) {
      unit.resize(unit.size() - tail.size());
      break;
    }
  }
  constexpr std::string_view kUnits = "kmgtpe";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit) + 1;
  if (unit.size() > 1 || (!unit.empty() && power == 0)) return std::nullopt;
  const double bytes = std::ldexp(split->first, static_cast<int>(10 * power));
  if (bytes >= std::ldexp(1.0, 63)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::optional<std::chrono::seconds> parse_time_span(std::string_view text) {
  const auto split = split_unit(text);
  if (!split) return std::nullopt;
  constexpr auto kUnits = std::to_array<std::pair<std::string_view, int>>(
      {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400}});
  const auto* unit =
      std::ranges::find(kUnits, split->second, &std::pair<std::string_view, int>::first);
  if (unit == kUnits.end()) return std::nullopt;
  const double seconds = split->first * unit->second;
  constexpr double kMost = 100.0 * 365 * 86400;
  if (!(seconds > 0) || seconds > kMost) return std::nullopt;
  return std::chrono::seconds(static_cast<std::int64_t>(seconds));
}

Result<StorageProxyConfig> parse_storage_proxy_config(std::string_view text,
                                                      const std::string& path,
                                                      const Environment& environment) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: {}", path, parsed.error().source().begin.line,
                            parsed.error().description()));
  }
  StorageProxyConfig config;
  std::optional<Error> error;
  Section root(&parsed.table(), "", path, error, config.warnings);
  read_proxy(root.table("storage-proxy"), config);
  read_api(root.table("api"), path, config);
  read_etcd(root.table("etcd"), environment, config);
  Section redis = root.table("redis");
  config.redis = redis.address("addr");
  config.redis_password = redis.text("password");
  redis.warn_of_others();
  read_volumes(root.table("volume"), path, config);
  root.ignore({"debug", "logging", "pyroscope", "otel", "service-discovery", "artifact-storages",
               "artifact-registries", "reservoir-client", "storages", "registries"});
  root.warn_of_others();
  if (!error && config.etcd.empty() && !config.redis) {
    root.wrong(
        "etcd.addr",
        R"(is missing; write where etcd is, or where Redis is ([redis] addr = "host:port"))");
  }
  if (error) return tl::unexpected(*std::move(error));
  return config;
}

Result<StorageProxyConfig> load_storage_proxy_config(const std::string& path,
                                                     const Environment& environment) {
  std::ifstream file(path);
  if (!file) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: cannot be read; name the storage-proxy.toml of the site", path));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_storage_proxy_config(text, path, environment);
}

}  // namespace onggi::daemon
