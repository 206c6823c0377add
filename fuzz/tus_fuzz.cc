#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "vfolder/upload_metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  if (const auto metadata = onggi::vfolder::parse_upload_metadata(text)) {
    CHECK(!metadata->path.is_root());
  }
  if (const auto checksum = onggi::vfolder::parse_upload_checksum(text)) {
    const bool sha1 = checksum->algorithm == onggi::vfolder::ChecksumAlgorithm::sha1;
    CHECK(checksum->digest.size() == (sha1 ? 20U : 8U));
  }
  static_cast<void>(onggi::vfolder::parse_xxh3(text));
  return 0;
}
