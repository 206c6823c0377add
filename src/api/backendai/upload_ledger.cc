#include "api/backendai/upload_ledger.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/uuid.h"

namespace onggi::api::backendai {
namespace {

constexpr int kDatabase = 8;
constexpr const char* kOffsetSeconds = "86400";
constexpr const char* kLeaseSeconds = "30";

// KEYS: offset, lease. ARGV: bytes, holder, seconds of the offset, seconds of the lease (0 ends
// it). Whoever does not hold the lease any more moves nothing.
constexpr const char* kAdvance = R"(
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return -1 end
local offset = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return offset
)";
constexpr const char* kRelease = R"(
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
)";

std::string offset_key(const std::string& session) {
  return "tus.upload.offset:" + session;
}
std::string lease_key(const std::string& session) {
  return "tus.upload.lease:" + session;
}

Result<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && !text.empty()) return value;
  return fail(ErrorCode::internal, fmt::format("Redis has '{}' as an upload's offset", text));
}

}  // namespace

UploadLedger::UploadLedger(redis::Client& redis, std::string node)
    : redis_(redis), node_(std::move(node)) {}

Status UploadLedger::begin(const std::string& session) {
  RETURN_IF_ERROR(redis_.run(kDatabase, {"SET", offset_key(session), "0", "EX", kOffsetSeconds}));
  return {};
}

Result<std::optional<std::uint64_t>> UploadLedger::offset(const std::string& session) {
  ASSIGN_OR_RETURN(const redis::Reply reply, redis_.run(kDatabase, {"GET", offset_key(session)}));
  if (reply.is_nil()) return std::nullopt;
  ASSIGN_OR_RETURN(const std::uint64_t value, number_in(reply.text));
  return value;
}

Result<UploadLedger::Lease> UploadLedger::claim(const std::string& session) {
  Lease lease{.session = session, .holder = fmt::format("{}:{}", node_, Uuid::random().hex())};
  ASSIGN_OR_RETURN(const auto replies,
                   redis_.transact(kDatabase, {{"SET", lease_key(session), lease.holder, "NX", "EX",
                                                kLeaseSeconds},
                                               {"GET", offset_key(session)}}));
  if (replies.size() != 2) return fail(ErrorCode::internal, "Redis answered half a transaction");
  if (replies[0].is_nil()) {
    return fail(ErrorCode::conflict,
                fmt::format("TUS session {} lease is held by another storage-proxy", session));
  }
  auto offset = replies[1].is_nil()
                    ? fail(ErrorCode::not_found,
                           fmt::format("TUS session {} is not registered or has expired", session))
                    : number_in(replies[1].text);
  if (!offset) {
    RETURN_IF_ERROR(release(lease));
    return tl::unexpected(std::move(offset).error());
  }
  lease.offset = *offset;
  return lease;
}

Status UploadLedger::extend(const Lease& lease) {
  RETURN_IF_ERROR(redis_.run(kDatabase, {"EXPIRE", lease_key(lease.session), kLeaseSeconds}));
  return {};
}

Status UploadLedger::move(Lease& lease, std::uint64_t bytes, const char* lease_seconds) {
  ASSIGN_OR_RETURN(const redis::Reply reply,
                   redis_.run(kDatabase, {"EVAL", kAdvance, "2", offset_key(lease.session),
                                          lease_key(lease.session), std::to_string(bytes),
                                          lease.holder, kOffsetSeconds, lease_seconds}));
  if (reply.integer < 0) {
    return fail(
        ErrorCode::condition_failed,
        fmt::format("TUS session {} lease was reclaimed by another storage-proxy", lease.session));
  }
  lease.offset = static_cast<std::uint64_t>(reply.integer);
  return {};
}

Status UploadLedger::advance(Lease& lease, std::uint64_t bytes) {
  return move(lease, bytes, kLeaseSeconds);
}

Status UploadLedger::finish(Lease& lease, std::uint64_t bytes) {
  return move(lease, bytes, "0");
}

Status UploadLedger::release(const Lease& lease) {
  RETURN_IF_ERROR(
      redis_.run(kDatabase, {"EVAL", kRelease, "1", lease_key(lease.session), lease.holder}));
  return {};
}

}  // namespace onggi::api::backendai
