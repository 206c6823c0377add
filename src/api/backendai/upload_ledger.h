#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "redis/client.h"

namespace onggi::api::backendai {

// How far each upload has come, and who writes it, in Redis (database 8), as proxies of a site
// share it: "tus.upload.offset:<session>" for a day after the last part,
// "tus.upload.lease:<session>" for 30 seconds after the writer's last sign of life. Offsets are
// never taken from the size of a file: over NFS that is cached. Thread-safe. Without Redis
// everything is `unavailable`.
class UploadLedger {
 public:
  // `redis` is borrowed. `node` is storage-proxy.node-id.
  UploadLedger(redis::Client& redis, std::string node);

  // The right to write one session, taken by claim().
  struct Lease {
    std::string session;
    std::string holder;
    std::uint64_t offset = 0;  // bytes that are durable
  };

  Status begin(const std::string& session);
  // None for a session that is unknown or forgotten.
  Result<std::optional<std::uint64_t>> offset(const std::string& session);

  // conflict while another writes; not_found for a session that is unknown.
  Result<Lease> claim(const std::string& session);
  // Still here. Any other writer's lease is prolonged as well: advance() finds that out.
  Status extend(const Lease& lease);
  // `bytes` more are durable, and the lease goes on. condition_failed when another has it by now:
  // what was written since is not part of the upload.
  Status advance(Lease& lease, std::uint64_t bytes);
  // The same, and gives the lease back.
  Status finish(Lease& lease, std::uint64_t bytes);
  // Gives the lease back, unless another has it by now.
  Status release(const Lease& lease);

 private:
  Status move(Lease& lease, std::uint64_t bytes, const char* lease_seconds);

  redis::Client& redis_;
  const std::string node_;
};

}  // namespace onggi::api::backendai
