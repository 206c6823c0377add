#include "client/connection.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <toml++/toml.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace onggi::client {

namespace {

constexpr std::string_view kDefaultUrl = "http://127.0.0.1:6020";

std::string or_empty(const std::optional<std::string>& text) {
  return text.value_or("");
}

std::string folder(const Surroundings& around, const char* variable, std::string_view below_home) {
  std::string set = or_empty(around.variable(variable));
  if (set.starts_with('/')) return set;
  return fmt::format("{}/{}", or_empty(around.variable("HOME")), below_home);
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  return text;
}

// Empty when the file is not there or not ours to read: a token is then simply not known.
std::string read_token_file(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  std::getline(file, token);
  return trimmed(std::move(token));
}

bool somebody_listens(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const FileDescriptor socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // The call takes any kind of address by a pointer to the general one.
  const void* erased = &address;
  return connect(socket_fd.get(), static_cast<const sockaddr*>(erased), sizeof(address)) == 0;
}

Status apply_url(Connection& connection, std::string url) {
  constexpr std::string_view kUnix = "unix://";
  if (url.starts_with(kUnix)) {
    connection.unix_socket = url.substr(kUnix.size());
    connection.base_url = "http://localhost";
    if (connection.unix_socket.starts_with('/')) return {};
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' (from {}): after unix:// comes an absolute path", url,
                            connection.origin));
  }
  while (url.ends_with('/')) url.pop_back();
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  const bool has_host = known && url.size() > url.find("//") + 2;
  if (!has_host || url.find_first_of(" \t\r\n@?#") != std::string::npos) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' (from {}) is not the URL of a daemon: it looks like {}, "
                            "https://host or unix:///path/onggid.sock",
                            url, connection.origin, kDefaultUrl));
  }
  connection.base_url = std::move(url);
  return {};
}

struct Profile {
  std::string name;
  std::string url;
  std::string token;
  std::string ca_file;
};

Result<toml::table> read_config_file(const std::string& path) {
  try {
    if (access(path.c_str(), F_OK) != 0) return toml::table{};
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

std::string text_at(const toml::table& table, std::string_view key) {
  return table[key].value_or(std::string());
}

// The profile called `name`; for an empty name the file's default one, or an empty profile.
Result<Profile> find_profile(std::string name, const Surroundings& around) {
  const std::string path = config_file_path(around);
  ASSIGN_OR_RETURN(const toml::table file, read_config_file(path));
  if (name.empty()) name = text_at(file, "default");
  if (name.empty()) return Profile{};
  const toml::table* profiles = file["profiles"].as_table();
  const toml::table* found = profiles == nullptr ? nullptr : (*profiles)[name].as_table();
  if (found == nullptr) {
    std::string known;
    if (profiles != nullptr) {
      for (const auto& [key, value] : *profiles) known += fmt::format(" {}", key.str());
    }
    return fail(ErrorCode::not_found, fmt::format("{} has no profile '{}'{}{}", path, name,
                                                  known.empty() ? "; add a table [profiles." +
                                                                      name + "] with url and token"
                                                                : "; it has:",
                                                  known));
  }
  Profile profile{name, text_at(*found, "url"), text_at(*found, "token"),
                  text_at(*found, "ca_file")};
  if (const std::string token_file = text_at(*found, "token_file");
      profile.token.empty() && !token_file.empty()) {
    profile.token = read_token_file(token_file);
    if (profile.token.empty()) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("{}: cannot read token_file '{}' of profile '{}'", path, token_file, name));
    }
  }
  return profile;
}

// Nothing was said: whoever runs on this machine.
Connection local_connection(const Surroundings& around, Connection connection) {
  connection.origin = "the default";
  const std::string own = data_folder_path(around);
  for (const std::string& data : {std::string("/var/lib/onggi"), own}) {
    const std::string path = data + "/onggid.sock";
    if (somebody_listens(path)) {
      connection.unix_socket = path;
      connection.base_url = "http://localhost";
      return connection;
    }
  }
  connection.base_url = kDefaultUrl;
  if (connection.token.empty()) connection.token = read_token_file(own + "/admin.token");
  return connection;
}

}  // namespace

std::string Connection::display() const {
  return unix_socket.empty() ? base_url : unix_socket;
}

Surroundings Surroundings::of_process() {
  return {.variable = [](const char* name) -> std::optional<std::string> {
            // Nothing here changes the environment after main has started.
            const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
            if (value == nullptr) return std::nullopt;
            return value;
          },
          .is_root = geteuid() == 0};
}

std::string config_file_path(const Surroundings& around) {
  return folder(around, "XDG_CONFIG_HOME", ".config") + "/onggi/config.toml";
}

std::string cache_folder_path(const Surroundings& around) {
  return folder(around, "XDG_CACHE_HOME", ".cache") + "/onggi";
}

std::string data_folder_path(const Surroundings& around) {
  if (std::string set = or_empty(around.variable("ONGGI_DATA_PATH")); !set.empty()) return set;
  if (around.is_root) return "/var/lib/onggi";
  return folder(around, "XDG_DATA_HOME", ".local/share") + "/onggi";
}

Result<Connection> resolve_connection(const ConnectionRequest& request,
                                      const Surroundings& around) {
  Connection connection;
  connection.ca_file = or_empty(around.variable("ONGGI_CA_FILE"));
  connection.token = request.token;
  if (connection.token.empty() && request.profile.empty()) {
    connection.token = or_empty(around.variable("ONGGI_TOKEN"));
  }
  if (!request.url.empty()) {
    connection.origin = "the given URL";
    RETURN_IF_ERROR(apply_url(connection, request.url));
    return connection;
  }
  const std::string url = or_empty(around.variable("ONGGI_URL"));
  if (request.profile.empty() && !url.empty()) {
    connection.origin = "ONGGI_URL";
    RETURN_IF_ERROR(apply_url(connection, url));
    return connection;
  }
  const std::string wanted =
      request.profile.empty() ? or_empty(around.variable("ONGGI_PROFILE")) : request.profile;
  ASSIGN_OR_RETURN(const Profile profile, find_profile(wanted, around));
  if (profile.name.empty()) return local_connection(around, std::move(connection));
  connection.origin = fmt::format("profile '{}'", profile.name);
  if (connection.token.empty()) connection.token = profile.token;
  if (!profile.ca_file.empty()) connection.ca_file = profile.ca_file;
  if (profile.url.empty()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: profile '{}' has no url", config_file_path(around), profile.name));
  }
  RETURN_IF_ERROR(apply_url(connection, profile.url));
  return connection;
}

}  // namespace onggi::client
