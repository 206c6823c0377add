#pragma once

#include <string>

#include "base/result.h"
#include "client/client.h"
#include "client/transfer.h"

namespace onggi::client {

struct UploadLimits {
  std::uint64_t tus_bytes_min = 8 << 20;          // from here on resumable
  std::uint64_t piece_bytes = 16 << 20;           // of a resumable upload, each with its checksum
  std::uint64_t batch_file_bytes_max = 64 << 10;  // smaller files travel in batches
  std::uint64_t batch_bytes_max = 8 << 20;
  std::size_t batch_files_max = 2000;
};

// Where bytes go: a path in a vfolder.
struct RemotePlace {
  std::string vfolder;  // id
  std::string path;
};

// Sends one file. The daemon verifies an xxh3 checksum of every byte before the file becomes
// visible. A large file continues where an earlier attempt was cut, if it is still the same.
Result<TransferSummary> upload_file(Client& client, const std::string& local,
                                    const RemotePlace& place, const TransferOptions& options,
                                    const UploadLimits& limits = {});

// Sends what is below `local` to below `place`; small files in batches without a checksum of their
// own (options.verify compares them). Files that are there with the same size, and are
// not older than here, are skipped unless options.force. A file that fails is listed in the summary
// and the rest goes on, but for errors that all would meet.
Result<TransferSummary> upload_tree(Client& client, const std::string& local,
                                    const RemotePlace& place, const TransferOptions& options,
                                    const UploadLimits& limits = {});

}  // namespace onggi::client
