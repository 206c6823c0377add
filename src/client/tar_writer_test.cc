#include "client/tar_writer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

namespace onggi::client {
namespace {

namespace fs = std::filesystem;

// What tar(1) makes of the archive: path to size, or to -1 for an empty directory.
std::map<std::string, std::int64_t> read_back(std::span<const std::byte> bytes) {
  std::string folder = testing::TempDir() + "onggi-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  {
    std::ofstream file(folder + "/archive.tar", std::ios::binary);
    const void* characters = bytes.data();
    file.write(static_cast<const char*>(characters), static_cast<std::streamsize>(bytes.size()));
  }
  const std::string command = "cd " + folder + " && mkdir out && tar -xf archive.tar -C out 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe,cert-env33-c)
  std::map<std::string, std::int64_t> found;
  const fs::path out = fs::path(folder) / "out";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(out)) {
    const std::string path = fs::relative(entry.path(), out).string();
    if (entry.is_regular_file()) found[path] = static_cast<std::int64_t>(entry.file_size());
    if (entry.is_directory() && fs::is_empty(entry.path())) found[path] = -1;
  }
  fs::remove_all(folder);
  return found;
}

TEST(TarWriterTest, OthersReadWhatItWrites) {
  TarWriter tar;
  ASSERT_TRUE(tar.add_file("a", 0, 0));
  ASSERT_TRUE(tar.add_file("b/c", 513, 1'700'000'000));
  ASSERT_TRUE(tar.add_directory("empty"));
  EXPECT_EQ(tar.files(), 2U);
  const auto bytes = tar.finish();
  EXPECT_EQ(bytes.size() % 512, 0U);
  const std::map<std::string, std::int64_t> expected{{"a", 0}, {"b/c", 513}, {"empty", -1}};
  EXPECT_EQ(read_back(bytes), expected);
}

TEST(TarWriterTest, NamesOfEveryLengthSurvive) {
  std::map<std::string, std::int64_t> expected;
  TarWriter tar;
  for (std::size_t length : {1, 99, 100, 101, 155, 156, 200, 255}) {
    const std::string name(length, 'n');
    for (const std::string& folder : {std::string(), std::string("d/"), std::string(155, 'p') + "/",
                                      std::string(200, 'q') + "/"}) {
      const std::string path = folder + name;
      ASSERT_TRUE(tar.add_file(path, 3, 0)) << path;
      expected[path] = 3;
    }
  }
  EXPECT_EQ(read_back(tar.finish()), expected);
}

TEST(TarWriterTest, TheLastFileCanBeTakenBack) {
  TarWriter tar;
  ASSERT_TRUE(tar.add_file("kept", 5, 0));
  ASSERT_TRUE(tar.add_file(std::string(300, 'x'), 5, 0));
  tar.drop_last();
  const std::map<std::string, std::int64_t> expected{{"kept", 5}};
  EXPECT_EQ(read_back(tar.finish()), expected);
}

TEST(TarWriterTest, ASizeThatDoesNotFitIsRefused) {
  TarWriter tar;
  EXPECT_FALSE(tar.add_file("huge", std::uint64_t{1} << 33, 0));
}

}  // namespace
}  // namespace onggi::client
