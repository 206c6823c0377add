#include "vfolder/uploads.h"

#include <algorithm>
#include <array>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/mutex.h"
#include "vfolder/upload_metadata.h"

namespace onggi::vfolder {
namespace {

constexpr std::size_t kRunningMax = 1024;  // half-made checksums kept between PATCHes
constexpr std::size_t kReadSize = std::size_t{1} << 20;
constexpr std::size_t kExpiredPage = 1000;

tl::unexpected<Error> no_such_upload() {
  return fail(ErrorCode::not_found, "no such upload");
}

std::string big_endian(std::uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xffU));
  }
  return bytes;
}

// The checksum of the bytes of one PATCH.
class ChunkHash {
 public:
  explicit ChunkHash(ChecksumAlgorithm algorithm) : algorithm_(algorithm) {}

  void update(std::span<const std::byte> bytes) {
    if (algorithm_ == ChecksumAlgorithm::sha1) {
      sha1_.update(bytes);
    } else {
      xxh3_.update(bytes);
    }
  }

  std::string finish() {
    return algorithm_ == ChecksumAlgorithm::sha1 ? sha1_.finish() : big_endian(xxh3_.digest());
  }

 private:
  const ChecksumAlgorithm algorithm_;
  Sha1 sha1_;
  Xxh3 xxh3_;
};

// The checksum of the first `size` bytes of an upload.
struct RunningHash {
  std::uint64_t size = 0;
  Xxh3 hash;
};

Result<std::uint64_t> hash_staged(backend::StagedFile& staged) {
  std::vector<std::byte> buffer(kReadSize);
  Xxh3 hash;
  std::uint64_t offset = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::size_t count, staged.read(offset, buffer));
    if (count == 0) return hash.digest();
    hash.update(std::span(buffer).first(count));
    offset += count;
  }
}

}  // namespace

// Who works on which upload, and checksums on their way. Peeks (HEAD requests), several at a time,
// and a creation hold an upload for a moment, so others wait for them; a session holds it for as
// long as the client sends, so others are told.
class Uploads::Locks {
 public:
  enum class Kind : std::uint8_t { peek, creation, session };

  // None when a session is on.
  std::optional<Lock> acquire(const Uuid& id, Kind kind);

  // The offset at which the session now on began.
  std::optional<std::uint64_t> session_offset(const Uuid& id) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = held_.find(id);
    if (found == held_.end() || found->second.kind != Kind::session) return std::nullopt;
    return found->second.offset;
  }

  void set_offset(const Uuid& id, std::uint64_t offset) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = held_.find(id);
    if (found != held_.end()) found->second.offset = offset;
  }

  void release(const Uuid& id) EXCLUDES_LOCK(mutex_) {
    {
      const MutexLock lock(mutex_);
      const auto found = held_.find(id);
      if (--found->second.holders > 0) return;
      held_.erase(found);
    }
    released_.notify_all();
  }

  std::optional<RunningHash> take_hash(const Uuid& id) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = hashes_.find(id);
    if (found == hashes_.end()) return std::nullopt;
    std::optional<RunningHash> hash(std::move(found->second));
    hashes_.erase(found);
    return hash;
  }

  void keep_hash(const Uuid& id, RunningHash hash) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    // Losing one costs a read of the staged bytes, so any may go.
    if (hashes_.size() >= kRunningMax) hashes_.erase(hashes_.begin());
    hashes_.insert_or_assign(id, std::move(hash));
  }

  void drop_hash(const Uuid& id) EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    hashes_.erase(id);
  }

 private:
  struct Held {
    Kind kind = Kind::peek;
    std::size_t holders = 1;  // above one for peeks only
    std::optional<std::uint64_t> offset;
  };

  Mutex mutex_;
  CondVar released_;
  std::unordered_map<Uuid, Held> held_ GUARDED_BY(mutex_);
  std::unordered_map<Uuid, RunningHash> hashes_ GUARDED_BY(mutex_);
};

class Uploads::Lock {
 public:
  Lock(Locks& locks, const Uuid& id) : locks_(&locks), id_(id) {}
  ~Lock() {
    if (locks_ != nullptr) locks_->release(id_);
  }
  Lock(Lock&& other) noexcept : locks_(std::exchange(other.locks_, nullptr)), id_(other.id_) {}
  Lock& operator=(Lock&&) = delete;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Locks* locks_;  // null once moved from
  Uuid id_;
};

std::optional<Uploads::Lock> Uploads::Locks::acquire(const Uuid& id, Kind kind) {
  const MutexLock lock(mutex_);
  while (true) {
    const auto found = held_.find(id);
    if (found == held_.end()) break;
    if (found->second.kind == Kind::session) return std::nullopt;
    if (kind == Kind::peek && found->second.kind == Kind::peek) {
      ++found->second.holders;
      return std::optional<Lock>(std::in_place, *this, id);
    }
    released_.wait(mutex_);
  }
  held_.emplace(id, Held{.kind = kind, .offset = {}});
  return std::optional<Lock>(std::in_place, *this, id);
}

struct Uploads::Opened {
  catalog::Upload upload;
  std::shared_ptr<backend::Folder> folder;
};

class Uploads::Session final : public AppendSession {
 public:
  Session(Uploads& uploads, Lock lock, Opened opened, std::unique_ptr<backend::StagedFile> staged,
          const AppendOptions& options)
      : uploads_(uploads),
        lock_(std::move(lock)),
        upload_(std::move(opened.upload)),
        folder_(std::move(opened.folder)),
        staged_(std::move(staged)),
        start_(staged_->size()),
        expected_(options.checksum) {
    uploads_.locks_->set_offset(upload_.id, start_);
    if (expected_) chunk_.emplace(expected_->algorithm);
    if (!upload_.xxh3) return;
    running_ = uploads_.locks_->take_hash(upload_.id);
    if (running_ && running_->size != start_) running_.reset();
    if (start_ == 0) running_.emplace();
  }

  ~Session() override { abandon(); }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&&) = delete;
  Session& operator=(Session&&) = delete;

  std::span<std::byte> buffer() override {
    const std::uint64_t left = upload_.length - staged_->size();
    if (left == 0) {
      buffer_ = overflow_;  // a byte that arrives here is one too many
    } else {
      buffer_ = staged_->buffer();
      buffer_ =
          buffer_.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer_.size())));
    }
    return buffer_;
  }

  Status commit(std::size_t bytes) override {
    CHECK(bytes <= buffer_.size());
    if (bytes == 0) return {};
    if (buffer_.data() == overflow_.data()) {
      return fail(ErrorCode::too_large, fmt::format("the body goes past the upload's length of {} "
                                                    "bytes",
                                                    upload_.length));
    }
    const auto arrived = buffer_.first(bytes);
    if (chunk_) chunk_->update(arrived);
    if (running_) {
      running_->hash.update(arrived);
      running_->size += bytes;
    }
    buffer_ = {};
    auto committed = staged_->commit_buffer(bytes);
    if (!committed) return give_up(std::move(committed).error());
    uploads_.received_.add(bytes);
    return {};
  }

  Result<UploadStatus> finish() override {
    if (!staged_) return no_such_upload();
    if (chunk_ && expected_ && chunk_->finish() != expected_->digest) {
      RETURN_IF_ERROR(drop_chunk());
      return fail(ErrorCode::corruption, "the body does not match Upload-Checksum: it was dropped");
    }
    if (staged_->size() == upload_.length) return complete();
    if (auto flushed = staged_->flush(); !flushed) return give_up(std::move(flushed).error());
    const UnixTime now = uploads_.clock_.now();
    if (upload_.expires - now < uploads_.options_.expiry / 2) {
      upload_.expires = now + uploads_.options_.expiry;
      RETURN_IF_ERROR(uploads_.catalog_.uploads().extend(upload_.id, upload_.expires));
    }
    auto status = uploads_.status_of(upload_, staged_->size());
    close();
    return status;
  }

  void abandon() override {
    if (!staged_) return;
    auto kept = chunk_ ? drop_chunk() : staged_->flush();
    if (!kept) {
      LOG_WARN("upload interrupted",
               {{"upload", upload_.id.to_string()}, {"error", kept.error().message()}});
    }
    close();
  }

 private:
  // Ends the session with the bytes kept.
  void close() {
    if (running_) uploads_.locks_->keep_hash(upload_.id, *std::move(running_));
    running_.reset();
    end();
  }

  // Lets the next session in, not waiting for this object to go: the client may be quicker.
  void end() {
    staged_.reset();
    lock_.reset();
  }

  Status drop_chunk() {
    running_.reset();
    auto dropped = staged_->truncate(start_);
    if (dropped) dropped = staged_->flush();
    end();
    return dropped;
  }

  // Removes the upload altogether.
  void forget() {
    running_.reset();
    uploads_.locks_->drop_hash(upload_.id);
    auto gone = staged_->discard();
    if (gone) gone = uploads_.catalog_.uploads().remove(upload_.id);
    end();
    if (!gone) {
      LOG_WARN("upload not removed",
               {{"upload", upload_.id.to_string()}, {"error", gone.error().message()}});
    }
  }

  // A full disk must not stay full of what cannot be finished; other errors leave the upload to be
  // resumed.
  tl::unexpected<Error> give_up(Error error) {
    if (error.code() == ErrorCode::storage_full) {
      forget();
    } else {
      running_.reset();  // it may have counted bytes that were not written
      end();
    }
    return tl::unexpected(std::move(error));
  }

  Status verify_whole() {
    if (!upload_.xxh3) return {};
    std::uint64_t digest = 0;
    if (running_ && running_->size == upload_.length) {
      digest = running_->hash.digest();
    } else {
      ASSIGN_OR_RETURN(digest, hash_staged(*staged_));
    }
    return verify_xxh3("upload", digest, *upload_.xxh3, "it was removed");
  }

  Result<UploadStatus> complete() {
    if (auto verified = verify_whole(); !verified) {
      if (verified.error().code() == ErrorCode::corruption) forget();
      end();
      return tl::unexpected(std::move(verified).error());
    }
    auto path = backend::RelPath::parse(upload_.path);
    if (!path) return tl::unexpected(std::move(path).error());
    auto info = staged_->commit(*path, {.if_etag = upload_.if_etag,
                                        .if_absent = upload_.if_absent,
                                        .create_parents = true,
                                        .durable = true});
    if (!info) {
      const ErrorCode code = info.error().code();
      // A precondition that failed will fail for ever; a full disk must not stay full of this.
      if (code == ErrorCode::condition_failed || code == ErrorCode::already_exists ||
          code == ErrorCode::storage_full) {
        forget();
      }
      end();
      return tl::unexpected(std::move(info).error());
    }
    running_.reset();
    upload_.etag = info->etag;
    upload_.expires = uploads_.clock_.now() + uploads_.options_.remembered;
    auto noted = uploads_.catalog_.uploads().complete(upload_.id, info->etag, upload_.expires);
    if (!noted) {
      // The file is there; the client is told so. Recovery forgets the session.
      LOG_WARN("upload committed but not noted",
               {{"upload", upload_.id.to_string()}, {"error", noted.error().message()}});
    }
    end();
    return uploads_.status_of(upload_, upload_.length);
  }

  Uploads& uploads_;
  std::optional<Lock> lock_;  // none once the session is over
  catalog::Upload upload_;
  std::shared_ptr<backend::Folder> folder_;      // outlives staged_
  std::unique_ptr<backend::StagedFile> staged_;  // null once the session is over
  const std::uint64_t start_;
  const std::optional<ChunkChecksum> expected_;
  std::optional<ChunkHash> chunk_;
  std::optional<RunningHash> running_;
  std::span<std::byte> buffer_;
  std::array<std::byte, 1> overflow_{};
};

Uploads::Uploads(catalog::Catalog& catalog, VFolders& vfolders, Clock& clock,
                 metrics::Registry& metrics, UploadsOptions options)
    : catalog_(catalog),
      vfolders_(vfolders),
      clock_(clock),
      options_(options),
      received_(metrics.counter("onggi_received_bytes_total", "Bytes of files received",
                                {{"way", "tus"}})),
      locks_(std::make_unique<Locks>()) {}

Uploads::~Uploads() = default;

UploadStatus Uploads::status_of(const catalog::Upload& upload, std::uint64_t offset) const {
  return {.id = upload.id,
          .vfolder = upload.vfolder,
          .path = upload.path,
          .offset = offset,
          .length = upload.length,
          .expires = upload.expires,
          .etag = upload.etag};
}

Result<Uploads::Opened> Uploads::open(const Principal& caller, const Uuid& id) {
  Opened opened;
  ASSIGN_OR_RETURN(opened.upload, catalog_.uploads().get(id));
  if (opened.upload.expires <= clock_.now()) return no_such_upload();
  auto folder = vfolders_.open(caller, opened.upload.vfolder, Access::write);
  if (!folder && folder.error().code() == ErrorCode::not_found) return no_such_upload();
  if (!folder) return tl::unexpected(std::move(folder).error());
  opened.folder = *std::move(folder);
  return opened;
}

Status Uploads::check_request(const UploadRequest& request) {
  if (request.path.is_root()) {
    return fail(ErrorCode::invalid_argument, "the path is empty: it means the vfolder itself");
  }
  if (request.length > options_.length_max) {
    return fail(ErrorCode::too_large,
                fmt::format("Upload-Length is over the limit of {} bytes", options_.length_max));
  }
  ASSIGN_OR_RETURN(const std::size_t present, catalog_.uploads().count(request.vfolder));
  if (present >= options_.per_vfolder_max) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("the vfolder has {} unfinished uploads, the most allowed", present));
  }
  return {};
}

Result<UploadStatus> Uploads::create(const Principal& caller, const UploadRequest& request) {
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open(caller, request.vfolder, Access::write));
  RETURN_IF_ERROR(check_request(request));
  const UnixTime now = clock_.now();
  catalog::Upload upload{.id = request.id.value_or(Uuid::random()),
                         .vfolder = request.vfolder,
                         .path = request.path.text(),
                         .length = request.length,
                         .xxh3 = request.xxh3,
                         .if_etag = request.if_etag,
                         .if_absent = request.if_absent,
                         .created = now,
                         .expires = now + options_.expiry,
                         .etag = {}};
  const auto lock = locks_->acquire(upload.id, Locks::Kind::creation);
  if (!lock || catalog_.uploads().get(upload.id)) {
    return fail(ErrorCode::already_exists, "the upload exists already");
  }
  // The staging file comes first: a crash before the row leaves what recovery collects, and a row
  // always means that its bytes were there.
  ASSIGN_OR_RETURN(const auto staged, folder->stage(upload.id, true, upload.length));
  if (upload.length == 0) return commit_empty(*staged, std::move(upload));
  if (auto inserted = catalog_.uploads().insert(upload); !inserted) {
    static_cast<void>(staged->discard());  // recovery collects what stays
    return tl::unexpected(std::move(inserted).error());
  }
  return status_of(upload, 0);
}

Result<UploadStatus> Uploads::commit_empty(backend::StagedFile& staged, catalog::Upload upload) {
  auto path = backend::RelPath::parse(upload.path);
  Result<backend::FileInfo> info =
      fail(ErrorCode::corruption, "the checksum is not that of an empty file");
  if (!upload.xxh3 || *upload.xxh3 == xxh3({})) {
    info = staged.commit(*path, {.if_etag = upload.if_etag,
                                 .if_absent = upload.if_absent,
                                 .create_parents = true,
                                 .durable = true});
  }
  if (!info) {
    static_cast<void>(staged.discard());
    return tl::unexpected(std::move(info).error());
  }
  upload.etag = info->etag;
  upload.expires = clock_.now() + options_.remembered;
  RETURN_IF_ERROR(catalog_.uploads().insert(upload));
  return status_of(upload, 0);
}

Result<UploadStatus> Uploads::status(const Principal& caller, const Uuid& id) {
  const auto lock = locks_->acquire(id, Locks::Kind::peek);
  ASSIGN_OR_RETURN(const auto opened, open(caller, id));
  const auto& upload = opened.upload;
  if (upload.etag) return status_of(upload, upload.length);
  if (!lock) return status_of(upload, locks_->session_offset(id).value_or(0));
  const auto staged = opened.folder->stage(id, false, upload.length);
  if (!staged && staged.error().code() == ErrorCode::not_found) return no_such_upload();
  if (!staged) return tl::unexpected(staged.error());
  return status_of(upload, (*staged)->size());
}

Result<std::unique_ptr<AppendSession>> Uploads::append(const Principal& caller, const Uuid& id,
                                                       const AppendOptions& options) {
  auto lock = locks_->acquire(id, Locks::Kind::session);
  ASSIGN_OR_RETURN(auto opened, open(caller, id));
  if (!lock) return fail(ErrorCode::conflict, "another request is sending to this upload");
  const auto& upload = opened.upload;
  if (upload.etag) {
    return fail(ErrorCode::conflict,
                fmt::format("the upload is complete at offset {}", upload.length));
  }
  auto staged = opened.folder->stage(id, false, upload.length);
  if (!staged && staged.error().code() == ErrorCode::not_found) return no_such_upload();
  if (!staged) return tl::unexpected(std::move(staged).error());
  const std::uint64_t offset = (*staged)->size();
  if (options.offset != offset) {
    return fail(ErrorCode::conflict,
                fmt::format("the upload is at offset {}, not {}", offset, options.offset));
  }
  if (options.length && *options.length > upload.length - std::min(offset, upload.length)) {
    return fail(ErrorCode::too_large,
                fmt::format("{} bytes at offset {} go past the upload's length of {}",
                            *options.length, offset, upload.length));
  }
  return std::make_unique<Session>(*this, *std::move(lock), std::move(opened), *std::move(staged),
                                   options);
}

Status Uploads::terminate(const Principal& caller, const Uuid& id) {
  const auto lock = locks_->acquire(id, Locks::Kind::session);
  ASSIGN_OR_RETURN(const auto opened, open(caller, id));
  if (!lock) return fail(ErrorCode::conflict, "another request is sending to this upload");
  if (!opened.upload.etag) {
    auto staged = opened.folder->stage(id, false, opened.upload.length);
    if (staged) RETURN_IF_ERROR((*staged)->discard());
    if (!staged && staged.error().code() != ErrorCode::not_found) {
      return tl::unexpected(std::move(staged).error());
    }
  }
  locks_->drop_hash(id);
  return catalog_.uploads().remove(id);
}

Result<bool> Uploads::remove_if_idle(const catalog::Upload& upload) {
  const auto lock = locks_->acquire(upload.id, Locks::Kind::session);
  if (!lock) return false;
  if (!upload.etag) {
    // Opened on the owner's behalf: expiry needs nobody's permission.
    ASSIGN_OR_RETURN(const auto vfolder, catalog_.vfolders().find(upload.vfolder));
    ASSIGN_OR_RETURN(const auto folder, vfolders_.open_unchecked(vfolder));
    auto staged = folder->stage(upload.id, false, upload.length);
    if (staged) RETURN_IF_ERROR((*staged)->discard());
    if (!staged && staged.error().code() != ErrorCode::not_found) {
      return tl::unexpected(std::move(staged).error());
    }
  }
  locks_->drop_hash(upload.id);
  RETURN_IF_ERROR(catalog_.uploads().remove(upload.id));
  return true;
}

Result<std::size_t> Uploads::remove_expired() {
  std::size_t removed = 0;
  ASSIGN_OR_RETURN(const auto expired, catalog_.uploads().expired(clock_.now(), kExpiredPage));
  for (const auto& upload : expired) {
    const auto gone = remove_if_idle(upload);
    if (gone && *gone) ++removed;
    // One on an unhealthy volume must not keep the others.
    if (!gone) {
      LOG_WARN("expired upload stays",
               {{"upload", upload.id.to_string()}, {"error", gone.error().message()}});
    }
  }
  return removed;
}

Status Uploads::forget_lost(const catalog::VFolder& vfolder) {
  ASSIGN_OR_RETURN(const auto uploads, catalog_.uploads().list(vfolder.id));
  if (uploads.empty()) return {};
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open_unchecked(vfolder));
  for (const auto& upload : uploads) {
    const auto staged = folder->stage(upload.id, false, upload.length);
    if (staged || staged.error().code() != ErrorCode::not_found) continue;
    RETURN_IF_ERROR(catalog_.uploads().remove(upload.id));
  }
  return {};
}

}  // namespace onggi::vfolder
