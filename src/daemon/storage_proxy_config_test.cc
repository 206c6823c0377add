#include "daemon/storage_proxy_config.h"

#include <string>

#include <gtest/gtest.h>

namespace onggi::daemon {
namespace {

constexpr const char* kLeast = R"(
[etcd]
namespace = "local"
addr = { host = "127.0.0.1", port = 12379 }
[storage-proxy]
node-id = "node"
secret = "jwt"
session-expire = "1d"
[api.client]
ssl-enabled = false
[api.manager]
ssl-enabled = false
secret = "mgr"
[volume.volume1]
backend = "vfs"
path = "volumes/one"
)";

Result<StorageProxyConfig> parse(const std::string& text, const Environment& environment = {}) {
  return parse_storage_proxy_config(text, "/etc/backend.ai/storage-proxy.toml", environment);
}

std::string error_of(const std::string& text, const Environment& environment = {}) {
  const auto config = parse(text, environment);
  return config ? "none" : config.error().message();
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(StorageProxyConfigTest, TheLeastThereIsHasTheDefaults) {
  const auto config = parse(kLeast);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->session_expire, std::chrono::hours(24));
  EXPECT_EQ(config->client.address.port, 6021);
  EXPECT_EQ(config->manager.address.port, 6022);
  EXPECT_EQ(config->internal.port, 16023);
  EXPECT_EQ(config->scandir_limit, 1000U);
  EXPECT_EQ(config->max_upload_bytes, 100ULL << 30);
  EXPECT_TRUE(config->auto_quota_scope_creation);
  EXPECT_EQ(config->etcd.at(0).port, 12379);
  ASSERT_EQ(config->volumes.size(), 1U);
  EXPECT_EQ(config->volumes[0].path, "/etc/backend.ai/volumes/one");
  EXPECT_EQ(config->volumes[0].fsprefix, ".");
  EXPECT_TRUE(config->warnings.empty()) << config->warnings.front();
}

TEST(StorageProxyConfigTest, DashesAndUnderscoresAreTheSame) {
  const auto config = parse(with(with(kLeast, "node-id", "node_id"), "[storage-proxy]",
                                 "[storage_proxy]\nmax_upload_size = \"1.5g\"\nscandir-limit = 0"));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->node_id, "node");
  EXPECT_EQ(config->max_upload_bytes, 3ULL << 29);
  EXPECT_EQ(config->scandir_limit, 0U);
}

TEST(StorageProxyConfigTest, AddressesComeInTwoSpellingsAndLists) {
  const auto config = parse(with(kLeast, R"({ host = "127.0.0.1", port = 12379 })",
                                 R"(["a:1", { host = "b", port = 2 }, "[::1]:3"])"));
  ASSERT_TRUE(config) << config.error().message();
  ASSERT_EQ(config->etcd.size(), 3U);
  EXPECT_EQ(config->etcd[0].host, "a");
  EXPECT_EQ(config->etcd[1].port, 2);
  EXPECT_EQ(config->etcd[2].host, "::1");
}

TEST(StorageProxyConfigTest, TheEnvironmentGoesBeforeTheFile) {
  const auto config = parse(kLeast, {{"BACKEND_NAMESPACE", "site"},
                                     {"BACKEND_ETCD_ADDR", "etcd:2379"},
                                     {"BACKEND_ETCD_USER", "me"},
                                     {"BACKEND_ETCD_PASSWORD", "secret"}});
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->etcd_namespace, "site");
  EXPECT_EQ(config->etcd.at(0).host, "etcd");
  EXPECT_EQ(config->etcd_user, "me");
  EXPECT_EQ(config->etcd_password, "secret");
  EXPECT_NE(error_of(kLeast, {{"BACKEND_ETCD_ADDR", "etcd"}}).find("BACKEND_ETCD_ADDR"),
            std::string::npos);
}

TEST(StorageProxyConfigTest, RedisMayStandInForEtcd) {
  const std::string without = with(kLeast, "addr = { host = \"127.0.0.1\", port = 12379 }", "");
  EXPECT_NE(error_of(without).find("etcd.addr is missing"), std::string::npos);
  const auto config = parse(without + "[redis]\naddr = \"redis:6379\"\npassword = \"p\"\n");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->redis->host, "redis");
  EXPECT_EQ(config->redis_password, "p");
}

TEST(StorageProxyConfigTest, UnknownKeysWarn) {
  const auto config =
      parse(with(kLeast, "[storage-proxy]", "[storage-proxy]\nnode-ide = 1") +
            "[volume.two]\nbackend = \"vfs\"\npath = \"/v\"\nfs = \"x\"\n[extra]\n");
  ASSERT_TRUE(config) << config.error().message();
  const std::string origin = "/etc/backend.ai/storage-proxy.toml: nobody knows the key ";
  EXPECT_EQ(config->warnings,
            (std::vector<std::string>{origin + "storage-proxy.node-ide", origin + "volume.two.fs",
                                      origin + "extra"}));
}

TEST(StorageProxyConfigTest, ErrorsNameTheKey) {
  EXPECT_EQ(error_of(with(kLeast, "node-id = \"node\"", "")),
            "/etc/backend.ai/storage-proxy.toml: storage-proxy.node-id is missing");
  EXPECT_NE(error_of(with(kLeast, "\"1d\"", "\"soon\"")).find("session-expire must be a time"),
            std::string::npos);
  EXPECT_NE(
      error_of(with(kLeast, "path = \"volumes/one\"", "")).find("volume.volume1.path is missing"),
      std::string::npos);
  EXPECT_NE(error_of(with(kLeast, "[api.manager]\nssl-enabled = false",
                          "[api.manager]\nssl-enabled = true"))
                .find("needs ssl-cert"),
            std::string::npos);
  EXPECT_NE(error_of("[etcd").find("storage-proxy.toml:1"), std::string::npos);
}

TEST(StorageProxyConfigTest, VendorKeysAreKeptAsText) {
  const auto config = parse(std::string(kLeast) +
                            "[volume.vast]\nbackend = \"vast\"\npath = \"/mnt/vast\"\n"
                            "[volume.vast.options]\nvast_endpoint = \"https://v\"\n"
                            "vast_verify_ssl = false\nvast_cluster_id = 1\n");
  ASSERT_TRUE(config) << config.error().message();
  const auto& options = config->volumes.at(0).name == "vast" ? config->volumes[0].options
                                                             : config->volumes.at(1).options;
  EXPECT_EQ(options.at("vast_endpoint"), "https://v");
  EXPECT_EQ(options.at("vast_verify_ssl"), "false");
  EXPECT_EQ(options.at("vast_cluster_id"), "1");
}

TEST(BinarySizeTest, UnitsArePowersOf1024) {
  EXPECT_EQ(parse_binary_size("512"), 512U);
  EXPECT_EQ(parse_binary_size("100g"), 100ULL << 30);
  EXPECT_EQ(parse_binary_size("1.5 GiB"), 3ULL << 29);
  EXPECT_EQ(parse_binary_size("2KB"), 2048U);
  EXPECT_EQ(parse_binary_size("7b"), 7U);
  for (const char* bad : {"", "g", "1x", "-1", "1gg", "nan", "inf", "99999999e"}) {
    EXPECT_EQ(parse_binary_size(bad), std::nullopt) << bad;
  }
}

TEST(TimeSpanTest, UnitsAreThoseOfTheSampleFiles) {
  EXPECT_EQ(parse_time_span("3600"), std::chrono::hours(1));
  EXPECT_EQ(parse_time_span("1d"), std::chrono::hours(24));
  EXPECT_EQ(parse_time_span("1.5h"), std::chrono::minutes(90));
  for (const char* bad : {"", "d", "1y", "0", "-1d", "nan", "1e300"}) {
    EXPECT_EQ(parse_time_span(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace onggi::daemon
