#include "backend/posix/posix_staged_file.h"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/posix/beneath.h"
#include "backend/posix/walk.h"
#include "io/file_appender.h"

namespace onggi::backend {
namespace {

constexpr mode_t kFileMode = 0644;

class PosixStagedFile final : public StagedFile {
 public:
  PosixStagedFile(int root, FileDescriptor staging, std::string name, std::uint64_t size_hint,
                  std::unique_ptr<io::FileAppender> appender, Mutex& commits)
      : root_(root),
        staging_(std::move(staging)),
        name_(std::move(name)),
        size_hint_(size_hint),
        appender_(std::move(appender)),
        commits_(commits) {}

  std::uint64_t size() const override { return appender_->size(); }
  std::span<std::byte> buffer() override { return appender_->buffer(); }
  Status commit_buffer(std::size_t bytes) override { return appender_->advance(bytes); }
  Status flush() override { return appender_->flush(true); }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) override {
    RETURN_IF_ERROR(appender_->flush(false));
    while (true) {
      const ssize_t count = ::pread(appender_->descriptor(), buffer.data(), buffer.size(),
                                    static_cast<off_t>(offset));
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) return fail_errno("read a staged upload");
    }
  }

  Status truncate(std::uint64_t size) override {
    RETURN_IF_ERROR(appender_->flush(false));
    FileDescriptor file(::fcntl(appender_->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
      return fail_errno("shorten a staged upload");
    }
    ASSIGN_OR_RETURN(appender_,
                     io::FileAppender::open(std::move(file), size, {.size_hint = size_hint_}));
    return {};
  }

  Result<FileInfo> commit(const RelPath& path, const CommitOptions& options) override {
    RETURN_IF_ERROR(appender_->flush(options.durable));
    // Space that was reserved but not filled is given back.
    if (::ftruncate(appender_->descriptor(), static_cast<off_t>(size())) != 0) {
      return fail_errno(path.text());
    }
    ASSIGN_OR_RETURN(const Place place, place_of(path, options));
    RETURN_IF_ERROR(rename_to(place, path, options));
    if (options.durable) RETURN_IF_ERROR(sync_descriptor(place.directory.get()));
    return stat_descriptor(appender_->descriptor());
  }

  Status discard() override {
    if (::unlinkat(staging_.get(), name_.c_str(), 0) != 0 && errno != ENOENT) {
      return fail_errno("remove a staged upload");
    }
    return {};
  }

 private:
  Result<Place> place_of(const RelPath& path, const CommitOptions& options) const {
    if (path.is_root()) return open_parent(root_, path);  // says that it cannot be
    auto directory = options.create_parents
                         ? make_directories(root_, path.parent(), options.durable)
                         : open_beneath(root_, path.parent(), O_RDONLY | O_DIRECTORY);
    if (!directory) return tl::unexpected(std::move(directory).error());
    return Place{*std::move(directory), std::string(path.name())};
  }

  Status rename_to(const Place& place, const RelPath& path, const CommitOptions& options) {
    const int directory = place.directory.get();
    if (options.if_absent) {
      if (::renameat2(staging_.get(), name_.c_str(), directory, place.name.c_str(),
                      RENAME_NOREPLACE) == 0) {
        return {};
      }
      if (errno != EEXIST) return fail_errno(path.text());
      return fail(ErrorCode::condition_failed, "'" + path.text() + "' exists already");
    }
    const MutexLock lock(commits_);
    const auto existing = stat_name(directory, place.name);
    if (existing && existing->kind == FileKind::directory) {
      return fail(ErrorCode::conflict, "'" + path.text() + "' is a directory");
    }
    if (options.if_etag && (!existing || existing->etag != *options.if_etag)) {
      return fail(ErrorCode::condition_failed, "'" + path.text() + "' has changed");
    }
    if (::renameat(staging_.get(), name_.c_str(), directory, place.name.c_str()) != 0) {
      return fail_errno(path.text());
    }
    return {};
  }

  const int root_;
  FileDescriptor staging_;
  const std::string name_;
  const std::uint64_t size_hint_;
  std::unique_ptr<io::FileAppender> appender_;
  Mutex& commits_;
};

Result<FileDescriptor> open_staging_directory(int root, bool create) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor staging(::openat(root, kStagingDirectory, kFlags));
  if (!staging && errno == ENOENT && create) {
    if (::mkdirat(root, kStagingDirectory, 0700) != 0 && errno != EEXIST) {
      return fail_errno("make the staging directory");
    }
    staging.reset(::openat(root, kStagingDirectory, kFlags));
  }
  if (!staging) return fail_errno("open the staging directory");
  return staging;
}

}  // namespace

Result<std::unique_ptr<StagedFile>> open_staged_file(int root, const Uuid& upload, bool create,
                                                     std::uint64_t size_hint, Mutex& commits) {
  ASSIGN_OR_RETURN(FileDescriptor staging, open_staging_directory(root, create));
  std::string name = upload.hex();
  const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT : 0);
  FileDescriptor file(::openat(staging.get(), name.c_str(), flags, kFileMode));
  if (!file) return fail_errno("open a staged upload");
  ASSIGN_OR_RETURN(const FileInfo info, stat_descriptor(file.get()));
  auto appender =
      io::FileAppender::open(std::move(file), info.size_bytes, {.size_hint = size_hint});
  if (!appender) {
    // Nothing of a new upload is kept that cannot even begin.
    if (info.size_bytes == 0) ::unlinkat(staging.get(), name.c_str(), 0);
    return tl::unexpected(std::move(appender).error());
  }
  return std::make_unique<PosixStagedFile>(root, std::move(staging), std::move(name), size_hint,
                                           *std::move(appender), commits);
}

}  // namespace onggi::backend
