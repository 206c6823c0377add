#pragma once

#include <string>

#include "base/result.h"
#include "client/client.h"
#include "client/transfer.h"
#include "client/upload.h"

namespace onggi::client {

struct DownloadLimits {
  std::uint64_t piece_bytes = 32 << 20;  // larger files come in pieces, several at a time
};

// Fetches one file to `local`. It appears there complete or not at all: it grows beside its place
// as .<name>.onggi-part, and a large one continues where an earlier attempt was cut, if the file
// at the daemon is still the same (its ETag is) and the pieces at hand have their checksums.
// conflict when the file changes meanwhile.
Result<TransferSummary> download_file(Client& client, const RemotePlace& place,
                                      const std::string& local, const TransferOptions& options,
                                      const DownloadLimits& limits = {});

// Fetches what is below `place` to below `local`, made if missing. Files that are here with the
// same size, and are not older than there, are skipped unless options.force. Symbolic links are
// left out with a warning. A file that fails is listed and the rest goes on.
Result<TransferSummary> download_tree(Client& client, const RemotePlace& place,
                                      const std::string& local, const TransferOptions& options,
                                      const DownloadLimits& limits = {});

}  // namespace onggi::client
