#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "daemon/config.h"

// The settings file of Backend.AI's storage proxy (storage-proxy.toml, 26.9), read as it is.
namespace onggi::daemon {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

struct StorageProxyListener {
  HostPort address;
  std::string certificate_file;  // empty: no TLS
  std::string key_file;
};

struct StorageProxyVolume {
  std::string name;
  std::string backend;
  std::string path;      // absolute
  std::string fsprefix;  // reported, not used in paths
  std::map<std::string, std::string> options;
};

struct StorageProxyConfig {
  std::string node_id;
  std::string token_secret;  // of the clients' JWTs
  std::chrono::seconds session_expire{};
  std::uint64_t scandir_limit = 1000;  // 0: none
  std::uint64_t max_upload_bytes = 100ULL << 30;
  bool auto_quota_scope_creation = true;
  std::string user, group;  // to become after binding; empty: stay

  StorageProxyListener client{.address = {"127.0.0.1", 6021}};
  StorageProxyListener manager{.address = {"127.0.0.1", 6022}};
  HostPort internal{"127.0.0.1", 16023};
  std::string manager_secret;

  std::string etcd_namespace = "local";
  std::vector<HostPort> etcd;  // empty only when `redis` is set
  std::string etcd_user, etcd_password;
  // Ours alone, [redis] addr and password: without it etcd tells where Redis is.
  std::optional<HostPort> redis;
  std::string redis_password;

  std::vector<StorageProxyVolume> volumes;
  std::vector<std::string> warnings;  // a sentence each: keys that nobody knows
};

// Every error names the file, the key, and what to write instead. Keys are spelled with dashes or
// underscores. The environment's BACKEND_NAMESPACE, BACKEND_ETCD_ADDR, BACKEND_ETCD_USER and
// BACKEND_ETCD_PASSWORD go before the file. Relative paths start at the file's folder.
Result<StorageProxyConfig> load_storage_proxy_config(const std::string& path,
                                                     const Environment& environment);
// The same of a file's text; `path` is what errors call it and where relative paths start.
Result<StorageProxyConfig> parse_storage_proxy_config(std::string_view text,
                                                      const std::string& path,
                                                      const Environment& environment);

// "100g", "1.5m", "512" in bytes (powers of 1024).
std::optional<std::uint64_t> parse_binary_size(std::string_view text);
// "1d", "3600", "12h" in seconds; units s, m, h, d, w.
std::optional<std::chrono::seconds> parse_time_span(std::string_view text);

}  // namespace onggi::daemon
