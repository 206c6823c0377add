#include "vfolder/upload_metadata.h"

#include <string>

#include <gtest/gtest.h>

#include "base/encoding.h"

namespace onggi::vfolder {
namespace {

std::string pair(const std::string& key, const std::string& value) {
  return key + " " + base64_encode(as_bytes(value));
}

TEST(UploadMetadataTest, TakesPathAndChecksum) {
  const auto metadata =
      parse_upload_metadata(pair("filetype", "image/png") + ", " + pair("path", "a/b.png") + "," +
                            pair("checksum", "xxh3=00000000000000ff") + ",flag");
  ASSERT_TRUE(metadata) << metadata.error().message();
  EXPECT_EQ(metadata->path.text(), "a/b.png");
  EXPECT_EQ(metadata->xxh3, 255U);
}

TEST(UploadMetadataTest, TakesAGenericClientsFileName) {
  EXPECT_EQ(parse_upload_metadata(pair("filename", "b.png"))->path.text(), "b.png");
  EXPECT_EQ(parse_upload_metadata(pair("filename", "b") + "," + pair("path", "a"))->path.text(),
            "a");
}

TEST(UploadMetadataTest, RefusesWhatIsMalformed) {
  for (const std::string& text :
       {std::string(), std::string("path"), std::string("path !!!"), pair("other", "x"),
        pair("path", ""), pair("path", "../x"), pair("path", "/x"),
        pair("path", std::string("a\0b", 3)), pair("path", "a") + "," + pair("path", "b"),
        pair("path", "a") + ",, x", pair("path", "a") + "," + pair("checksum", "md5=1"),
        std::string(20000, 'a')}) {
    const auto metadata = parse_upload_metadata(text);
    ASSERT_FALSE(metadata) << text;
    EXPECT_EQ(metadata.error().code(), ErrorCode::invalid_argument) << text;
  }
}

TEST(UploadMetadataTest, ParsesChunkChecksums) {
  const std::string sha(20, 's');
  const auto checksum = parse_upload_checksum(pair("sha1", sha));
  ASSERT_TRUE(checksum);
  EXPECT_EQ(checksum->algorithm, ChecksumAlgorithm::sha1);
  EXPECT_EQ(checksum->digest, sha);
  EXPECT_EQ(parse_upload_checksum(pair("xxh3", "12345678"))->algorithm, ChecksumAlgorithm::xxh3);
  for (const std::string& text : {std::string(), pair("md5", sha), pair("sha1", "short"),
                                  std::string("sha1"), std::string("xxh3 ???")}) {
    EXPECT_FALSE(parse_upload_checksum(text)) << text;
  }
}

TEST(UploadMetadataTest, ParsesXxh3) {
  EXPECT_EQ(parse_xxh3("xxh3=fedcba9876543210").value(), 0xfedcba9876543210U);
  for (const char* text : {"", "xxh3=", "xxh3=fedcba987654321", "xxh3=fedcba98765432100",
                           "xxh3=fedcba987654321g", "xxh3=-edcba9876543210", "sha1=00"}) {
    EXPECT_FALSE(parse_xxh3(text)) << text;
  }
}

}  // namespace
}  // namespace onggi::vfolder
