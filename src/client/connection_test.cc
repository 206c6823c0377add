#include "client/connection.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <unistd.h>

namespace onggi::client {
namespace {

// A home folder of its own, and an environment that holds only what the test says.
class ConnectionTest : public testing::Test {
 public:
  ConnectionTest() {
    std::string pattern = testing::TempDir() + "onggi-XXXXXX";
    home = mkdtemp(pattern.data());
    variables["HOME"] = home;
  }
  ~ConnectionTest() override { std::filesystem::remove_all(home); }
  ConnectionTest(const ConnectionTest&) = delete;
  ConnectionTest& operator=(const ConnectionTest&) = delete;
  ConnectionTest(ConnectionTest&&) = delete;
  ConnectionTest& operator=(ConnectionTest&&) = delete;

 protected:
  Surroundings around() const {
    return {.variable = [this](const char* name) -> std::optional<std::string> {
              const auto found = variables.find(name);
              if (found == variables.end()) return std::nullopt;
              return found->second;
            },
            .is_root = false};
  }

  void write(const std::string& path, std::string_view text) const {
    const std::filesystem::path file = std::filesystem::path(home) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string home;
  std::map<std::string, std::string, std::less<>> variables;
};

TEST_F(ConnectionTest, ArgumentsComeFirst) {
  variables["ONGGI_URL"] = "http://environment:1";
  variables["ONGGI_TOKEN"] = "from-environment";
  const auto found = resolve_connection({.url = "https://said:2/", .token = "said"}, around());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base_url, "https://said:2");
  EXPECT_EQ(found->token, "said");
}

TEST_F(ConnectionTest, TheEnvironmentComesBeforeProfiles) {
  write(".config/onggi/config.toml", "default = 'lab'\n[profiles.lab]\nurl = 'http://lab:1'\n");
  variables["ONGGI_URL"] = "unix:///run/onggid.sock";
  variables["ONGGI_TOKEN"] = "t";
  const auto found = resolve_connection({}, around());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->unix_socket, "/run/onggid.sock");
  EXPECT_EQ(found->token, "t");
  EXPECT_EQ(found->display(), "/run/onggid.sock");
}

TEST_F(ConnectionTest, ANamedProfileBeatsTheEnvironment) {
  write(".config/onggi/config.toml",
        "[profiles.lab]\nurl = 'http://lab:1'\ntoken_file = '" + home + "/token'\n");
  write("token", "secret\n");
  variables["ONGGI_URL"] = "http://environment:1";
  variables["ONGGI_TOKEN"] = "from-environment";
  const auto found = resolve_connection({.profile = "lab"}, around());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base_url, "http://lab:1");
  EXPECT_EQ(found->token, "secret");
}

TEST_F(ConnectionTest, AnUnknownProfileNamesTheFileAndThoseThereAre) {
  write(".config/onggi/config.toml", "[profiles.lab]\nurl = 'http://lab:1'\n");
  const auto found = resolve_connection({.profile = "home"}, around());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::not_found);
  EXPECT_NE(found.error().message().find("config.toml"), std::string::npos);
  EXPECT_NE(found.error().message().find("lab"), std::string::npos);
}

TEST_F(ConnectionTest, AMalformedFileIsNamedWithItsLine) {
  write(".config/onggi/config.toml", "default = 'lab'\nnonsense\n");
  const auto found = resolve_connection({}, around());
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message().find("config.toml:2"), std::string::npos);
}

TEST_F(ConnectionTest, NothingSaidMeansThisMachine) {
  write(".local/share/onggi/admin.token", "local-token\n");
  const auto found = resolve_connection({}, around());
  ASSERT_TRUE(found);
  if (found->unix_socket.empty()) {  // no daemon of this machine happens to run
    EXPECT_EQ(found->base_url, "http://127.0.0.1:6020");
    EXPECT_EQ(found->token, "local-token");
  }
}

TEST_F(ConnectionTest, MalformedUrlsAreRefused) {
  for (const char* url : {"lab", "ftp://x", "http://", "http://user@host", "unix://relative",
                          "http://host/?q", "http://a b"}) {
    const auto found = resolve_connection({.url = url}, around());
    ASSERT_FALSE(found) << url;
    EXPECT_EQ(found.error().code(), ErrorCode::invalid_argument) << url;
  }
}

}  // namespace
}  // namespace onggi::client
