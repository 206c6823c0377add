#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace onggi::client {

// Where a daemon is and how to be let in.
struct Connection {
  std::string base_url;     // "http://127.0.0.1:6020"; "http://localhost" over a Unix socket
  std::string unix_socket;  // path; empty: TCP
  std::string token;        // empty: none
  std::string ca_file;      // for https; empty: the system's
  std::string origin;       // what chose it, for messages: "--url", "ONGGI_URL", "profile lab", …

  // For people: the URL, or the path of the socket.
  std::string display() const;
};

// What the caller said; empty fields were not said.
struct ConnectionRequest {
  std::string url;  // http://, https:// or unix:///path
  std::string token;
  std::string profile;
};

// The process's surroundings, passed in so that tests make their own.
struct Surroundings {
  std::function<std::optional<std::string>(const char* name)> variable;
  bool is_root = false;

  static Surroundings of_process();
};

// Chooses, first hit wins: what the request says; ONGGI_URL and ONGGI_TOKEN; the profile that the
// request or ONGGI_PROFILE names, or the file's default one; this machine's daemon by its Unix
// socket; http://127.0.0.1:6020 with the local admin token where it can be read.
// not_found for an unknown profile, invalid_argument for a malformed URL or file.
Result<Connection> resolve_connection(const ConnectionRequest& request, const Surroundings& around);

// $XDG_CONFIG_HOME/onggi/config.toml, $XDG_CACHE_HOME/onggi and where the daemon keeps its data
// unless told otherwise; each by the home folder where the variable is not set.
std::string config_file_path(const Surroundings& around);
std::string cache_folder_path(const Surroundings& around);
std::string data_folder_path(const Surroundings& around);

}  // namespace onggi::client
