#include "vfolder/tar.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/encoding.h"

namespace onggi::vfolder {
namespace {

// Keeps what it is told.
class Collector final : public TarHandler {
 public:
  Status directory(const backend::RelPath& path) override {
    directories.push_back(path.text());
    return {};
  }

  Status begin_file(const backend::RelPath& path, std::uint64_t size) override {
    path_ = path.text();
    size_ = size;
    files[path_] = "";
    return {};
  }

  Status data(std::span<const std::byte> bytes) override {
    for (const std::byte b : bytes) files[path_].push_back(static_cast<char>(b));
    return {};
  }

  Status end_file() override {
    EXPECT_EQ(files[path_].size(), size_);
    return {};
  }

  std::vector<std::string> directories;
  std::map<std::string, std::string> files;

 private:
  std::string path_;
  std::uint64_t size_ = 0;
};

const std::string kEnd(2 * kTarBlock, '\0');

std::string file(const std::string& path, const std::string& content) {
  std::string out =
      tar_header({.path = path, .size = content.size(), .mode = 0644, .modified = {}});
  out += content;
  out.append((kTarBlock - content.size() % kTarBlock) % kTarBlock, '\0');
  return out;
}

// Rewrites a header's field and its checksum.
std::string with(std::string block, std::size_t offset, const std::string& bytes) {
  block.replace(offset, bytes.size(), bytes);
  block.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) sum += static_cast<unsigned char>(block[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  block.replace(148, 8, std::string(text, 6) + std::string("\0 ", 2));
  return block;
}

Status read(const std::string& archive, TarHandler& handler, std::size_t step = 0,
            TarLimits limits = {}) {
  TarReader reader(handler, limits);
  auto bytes = as_bytes(archive);
  while (!bytes.empty()) {
    const auto part = bytes.first(step == 0 ? bytes.size() : std::min(step, bytes.size()));
    RETURN_IF_ERROR(reader.feed(part));
    bytes = bytes.subspan(part.size());
  }
  return reader.finish();
}

std::string refusal(const std::string& archive, TarLimits limits = {}) {
  Collector collector;
  const auto status = read(archive, collector, 0, limits);
  return status ? "accepted" : status.error().message();
}

TEST(TarTest, ReadsWhatItWroteInPiecesOfAnySize) {
  const std::string long_path =
      std::string(120, 'd') + "/" + std::string(140, 'e') + "/" + std::string(200, 'f');
  const std::string archive =
      tar_header({.path = "dir", .directory = true, .mode = 0755, .modified = {}}) +
      file("dir/empty", "") + file("dir/small", "hello") +
      file("dir/block", std::string(512, 'b')) +
      file(std::string(90, 'p') + "/" + std::string(90, 'n'), "prefix") + file(long_path, "pax") +
      file("데이터/옹기", std::string(1500, 'k')) + kEnd + std::string(8192, '\0');
  for (const std::size_t step : {0, 1, 7, 511, 512, 513, 4096}) {
    Collector seen;
    const auto status = read(archive, seen, step);
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(seen.directories, std::vector<std::string>{"dir"});
    ASSERT_EQ(seen.files.size(), 6U);
    EXPECT_EQ(seen.files["dir/empty"], "");
    EXPECT_EQ(seen.files["dir/small"], "hello");
    EXPECT_EQ(seen.files["dir/block"], std::string(512, 'b'));
    EXPECT_EQ(seen.files[std::string(90, 'p') + "/" + std::string(90, 'n')], "prefix");
    EXPECT_EQ(seen.files[long_path], "pax");
    EXPECT_EQ(seen.files["데이터/옹기"].size(), 1500U);
  }
}

TEST(TarTest, ReadsGnuLongNamesAndDotSlash) {
  const std::string name = std::string(200, 'm') + "/" + std::string(200, 'n');
  std::string link =
      with(tar_header({.path = "x", .size = name.size() + 1, .modified = {}}), 156, "L");
  link = with(link, 0, "././@LongLink");
  std::string body = name + '\0';
  body.append(kTarBlock - body.size() % kTarBlock, '\0');
  const std::string root =
      with(tar_header({.path = "d", .directory = true, .modified = {}}), 0, std::string("./\0", 3));
  const std::string dotted = with(file("x", "1"), 0, std::string("./x\0", 4));
  Collector seen;
  const auto status = read(root + dotted + link + body + file("short", "2") + kEnd, seen);
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_EQ(seen.files["x"], "1");
  EXPECT_EQ(seen.files[name], "2");
  EXPECT_TRUE(seen.directories.empty());
}

TEST(TarTest, RefusesLinksAndDevicesByName) {
  for (const auto& [type, words] : std::map<std::string, std::string>{{"1", "hard link"},
                                                                      {"2", "symbolic link"},
                                                                      {"3", "device"},
                                                                      {"4", "device"},
                                                                      {"6", "pipe"},
                                                                      {"S", "sparse"},
                                                                      {"Z", "not supported"}}) {
    const auto message = refusal(with(file("evil", ""), 156, type) + kEnd);
    EXPECT_NE(message.find("'evil'"), std::string::npos) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

TEST(TarTest, RefusesUnsafePaths) {
  for (const std::string& path :
       {std::string("/etc/passwd"), std::string("../x"), std::string("a/../../x"),
        std::string("a//b"), std::string("."), std::string(".upload/x"), std::string("a/\xff"),
        std::string("a\nb")}) {
    EXPECT_NE(refusal(file(path, "x") + kEnd), "accepted") << path;
  }
}

TEST(TarTest, RefusesWhatIsMalformed) {
  const std::string good = file("a", "hello");
  std::string bad_sum = good;
  bad_sum[0] = 'b';
  EXPECT_NE(refusal(bad_sum + kEnd).find("checksum"), std::string::npos);
  EXPECT_NE(refusal(good).find("cut short"), std::string::npos);
  EXPECT_NE(refusal("").find("cut short"), std::string::npos);
  EXPECT_NE(refusal(good.substr(0, 514)).find("cut short"), std::string::npos);
  EXPECT_NE(refusal(std::string(kTarBlock, '\0') + good + kEnd).find("zeros"), std::string::npos);
  EXPECT_NE(refusal(good + kEnd + good).find("follows the end"), std::string::npos);
  EXPECT_NE(refusal(with(good, 124, "zzz") + kEnd).find("size"), std::string::npos);
  EXPECT_NE(refusal(with(good, 124, "\xff") + kEnd).find("size"), std::string::npos);
  EXPECT_NE(refusal(with(good, 124, "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") + kEnd)
                .find("size"),
            std::string::npos);
}

TEST(TarTest, RefusesMalformedPax) {
  for (const std::string& records :
       {std::string("x path=a\n"), std::string("99 path=a\n"), std::string("9 path=ab"),
        std::string("10 path=a\n "), std::string("3 a\n"), std::string("11 size=-1\n\n"),
        std::string("10 size=x\n"), std::string("24 GNU.sparse.realsize=\n")}) {
    std::string head =
        with(tar_header({.path = "p", .size = records.size(), .modified = {}}), 156, "x");
    std::string body = records;
    body.append(kTarBlock - body.size() % kTarBlock, '\0');
    EXPECT_NE(refusal(head + body + file("a", "") + kEnd), "accepted") << records;
  }
}

TEST(TarTest, HoldsItsLimits) {
  const std::string two =
      file("a", std::string(600, 'a')) + file("b", std::string(600, 'b')) + kEnd;
  EXPECT_EQ(refusal(two, {.entries_max = 2}), "accepted");
  EXPECT_NE(refusal(two, {.entries_max = 1}).find("entries"), std::string::npos);
  EXPECT_NE(refusal(two, {.file_bytes_max = 599}).find("limit"), std::string::npos);
  EXPECT_NE(refusal(two, {.total_bytes_max = 1199}).find("limit"), std::string::npos);
  const std::string huge =
      with(tar_header({.path = "x", .size = 2 << 20, .modified = {}}), 156, "x");
  EXPECT_NE(refusal(huge).find("extended header"), std::string::npos);
}

TEST(TarTest, SaysSizesOver8GiBInPax) {
  const std::uint64_t size = std::uint64_t{1} << 40U;
  const std::string head = tar_header({.path = "big", .size = size, .mode = 0644, .modified = {}});
  EXPECT_NE(head.find("22 size=1099511627776\n"), std::string::npos);
}

TEST(TarTest, SurvivesRandomDamage) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string good = file("a", "hello") + file(std::string(300, 'p'), "pax") + kEnd;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = good;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    Collector seen;
    static_cast<void>(read(damaged, seen, 1 + random() % 1000));
  }
}

}  // namespace
}  // namespace onggi::vfolder
