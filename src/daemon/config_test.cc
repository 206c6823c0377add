#include "daemon/config.h"

#include <gtest/gtest.h>

namespace onggi::daemon {
namespace {

std::string error_of(std::string_view text, const Environment& environment = {}) {
  const Result<Config> config = parse_config(text, "onggid.toml", environment);
  return config ? "" : config.error().message();
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(ConfigTest, HasDefaultsWithoutAFile) {
  const Result<Config> config = load_config("", {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server.port, 6020U);
  EXPECT_EQ(config->server.address, "127.0.0.1");
  EXPECT_TRUE(config->volumes.empty());
}

TEST(ConfigTest, ReadsItsOwnSample) {
  // Uncommented, so that every default passes its own check.
  const std::string text(sample_toml());
  std::string active;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.starts_with('#') && line.size() > 1 && line[1] != ' ') line.remove_prefix(1);
    active += std::string(line) + "\n";
    at = end + 1;
  }
  const Result<Config> config = parse_config(active, "sample", {});
  ASSERT_TRUE(config) << config.error().message();
  ASSERT_EQ(config->volumes.size(), 1U);
  EXPECT_EQ(config->volumes[0].options.at("path"), "/srv/onggi");
}

TEST(ConfigTest, EnvironmentOverridesTheFile) {
  const Result<Config> config =
      parse_config("[server]\nport = 1\n", "f", {{"ONGGI_SERVER_PORT", "7"}});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server.port, 7U);
}

TEST(ConfigTest, ReadsListsFromTheEnvironment) {
  const Result<Config> config = parse_config("", "f", {{"ONGGI_ACTIVE_PROFILES", "numpy,native"}});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->active.profiles, (std::vector<std::string>{"numpy", "native"}));
}

TEST(ConfigTest, SuggestsTheNearestKey) {
  const std::string error = error_of("[server]\n\nprot = 1\n");
  EXPECT_TRUE(says(error, "onggid.toml:3")) << error;
  EXPECT_TRUE(says(error, "server.prot")) << error;
  EXPECT_TRUE(says(error, "did you mean server.port?")) << error;
}

TEST(ConfigTest, SuggestsNothingForWhatIsFarFromEverything) {
  const std::string error = error_of("wibble_wobble = 1\n");
  EXPECT_FALSE(says(error, "did you mean")) << error;
  EXPECT_TRUE(says(error, "--print-config")) << error;
}

TEST(ConfigTest, SuggestsTheRightSection) {
  EXPECT_TRUE(says(error_of("[log]\nport = 1\n"), "did you mean server.port?"));
}

TEST(ConfigTest, SaysWhatAValueMustBe) {
  EXPECT_TRUE(says(error_of("[server]\nport = \"x\"\n"), "a whole number from 0 to 65535"));
  EXPECT_TRUE(says(error_of("[server]\nport = 70000\n"), "a whole number from 0 to 65535"));
  EXPECT_TRUE(says(error_of("[server]\nport = -1\n"), "a whole number from 0 to 65535"));
  EXPECT_TRUE(says(error_of("[log]\nlevel = \"loud\"\n"), "one of debug, info, warning, error"));
  EXPECT_TRUE(says(error_of("[active]\nenabled = 1\n"), "true or false"));
  EXPECT_TRUE(says(error_of("[active]\nprofiles = [1]\n"), "a list of strings"));
}

TEST(ConfigTest, NamesTheVariableInItsErrors) {
  EXPECT_TRUE(says(error_of("", {{"ONGGI_SERVER_PORT", "x"}}), "ONGGI_SERVER_PORT: server.port"));
}

TEST(ConfigTest, NamesTheLineOfBrokenToml) {
  EXPECT_TRUE(says(error_of("[server]\nport = = 1\n"), "onggid.toml:2: not TOML"));
}

TEST(ConfigTest, ReadsVolumes) {
  const Result<Config> config = parse_config(
      "[[volumes]]\nname = \"a\"\nbackend = \"posix\"\npath = \"/x\"\nlanes = 3\n", "f", {});
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->volumes[0].options.at("lanes"), "3");
}

TEST(ConfigTest, RefusesVolumesItCannotName) {
  EXPECT_TRUE(says(error_of("[volumes]\nname = \"a\"\n"), "two brackets"));
  EXPECT_TRUE(says(error_of("[[volumes]]\nname = \"a\"\n"), "a name and a backend"));
  EXPECT_TRUE(says(error_of("[[volumes]]\nname = \"a\"\nbackend = \"m\"\n[[volumes]]\nname = "
                            "\"a\"\nbackend = \"m\"\n"),
                   "two volumes are called a"));
}

TEST(ConfigTest, WantsCertificateAndKeyTogether) {
  EXPECT_TRUE(says(error_of("[server]\ntls_key_file = \"k\"\n"), "belong together"));
}

TEST(ConfigTest, WantsPrewarmedProfilesToBeOffered) {
  EXPECT_TRUE(says(error_of("[active]\nprewarm = [\"jax\"]\n"), "jax"));
}

}  // namespace
}  // namespace onggi::daemon
