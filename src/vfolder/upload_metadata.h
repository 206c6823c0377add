#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend/rel_path.h"
#include "base/result.h"
#include "vfolder/uploads.h"

namespace onggi::vfolder {

// Upload-Metadata of a TUS creation request: "path cGF0aA==,checksum eHhoMz0…".
struct UploadMetadata {
  backend::RelPath path;
  std::optional<std::uint64_t> xxh3;
};

// invalid_argument, naming the fault. Unknown keys are ignored; "filename" stands in for a missing
// "path", so that generic TUS clients work.
Result<UploadMetadata> parse_upload_metadata(std::string_view text);

// Upload-Checksum: "sha1 <base64>" or "xxh3 <base64>".
Result<ChunkChecksum> parse_upload_checksum(std::string_view text);

// "xxh3=<16 hex>", as in the header Onggi-Checksum.
Result<std::uint64_t> parse_xxh3(std::string_view text);

// Unless the digests are equal, corruption: "the `what`'s checksum is …, not …: `outcome`".
Status verify_xxh3(std::string_view what, std::uint64_t digest, std::uint64_t announced,
                   std::string_view outcome);

}  // namespace onggi::vfolder
