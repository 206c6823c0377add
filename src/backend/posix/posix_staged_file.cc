#include "backend/posix/posix_staged_file.h"

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
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
  PosixStagedFile(std::shared_ptr<const FileDescriptor> root, SharedVolumeState volume,
                  Place staging, std::uint64_t size_hint,
                  std::unique_ptr<io::FileAppender> appender)
      : root_(std::move(root)),
        volume_(std::move(volume)),
        staging_(std::move(staging)),
        size_hint_(size_hint),
        appender_(std::move(appender)),
        name_is_durable_(appender_->size() > 0) {}

  std::uint64_t size() const override { return appender_->size(); }
  std::span<std::byte> buffer() override { return appender_->buffer(); }
  Status commit_buffer(std::size_t bytes) override { return appender_->advance(bytes); }

  Status flush() override {
    RETURN_IF_ERROR(appender_->flush(true));
    if (name_is_durable_) return {};
    RETURN_IF_ERROR(volume_->directories.sync(staging_.directory.get()));
    RETURN_IF_ERROR(volume_->directories.sync(root_->get()));
    name_is_durable_ = true;
    return {};
  }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) override {
    RETURN_IF_ERROR(appender_->flush(false));
    return read_at(appender_->descriptor(), offset, buffer);
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

  // Once renamed, a commit that failed later (or whose answer was lost) is finished by another.
  Result<FileInfo> commit(const RelPath& path, const CommitOptions& options) override {
    if (!target_) {
      RETURN_IF_ERROR(appender_->flush(options.durable));
      // Space that was reserved but not filled is given back.
      if (size_hint_ > size() &&
          ::ftruncate(appender_->descriptor(), static_cast<off_t>(size())) != 0) {
        return fail_errno(path.text());
      }
      ASSIGN_OR_RETURN(Place place, place_of(path, options));
      RETURN_IF_ERROR(rename_to(place, path, options));
      target_ = std::move(place.directory);
    }
    if (options.durable) RETURN_IF_ERROR(volume_->directories.sync(target_->get()));
    return stat_descriptor(appender_->descriptor());
  }

  Status discard() override {
    if (::unlinkat(staging_.directory.get(), staging_.name.c_str(), 0) != 0 && errno != ENOENT) {
      return fail_errno("remove a staged upload");
    }
    return {};
  }

 private:
  Result<Place> place_of(const RelPath& path, const CommitOptions& options) const {
    if (path.is_root() || !options.create_parents) {
      return open_parent(root_->get(), path, O_RDONLY);
    }
    ASSIGN_OR_RETURN(FileDescriptor directory,
                     make_directories(root_->get(), path.parent(), options.durable));
    return Place{std::move(directory), std::string(path.name())};
  }

  Status rename_to(const Place& place, const RelPath& path, const CommitOptions& options) {
    if (options.if_absent) {
      auto renamed = rename_to_new(staging_, place);
      if (renamed || renamed.error().code() != ErrorCode::already_exists) return renamed;
      return fail(ErrorCode::condition_failed, "'" + path.text() + "' exists already");
    }
    const NameLock lock(volume_->locks, place);
    const int directory = place.directory.get();
    const auto existing = stat_name(directory, place.name);
    if (existing && existing->kind == FileKind::directory) {
      return fail(ErrorCode::conflict, "'" + path.text() + "' is a directory");
    }
    if (options.if_etag && (!existing || existing->etag != *options.if_etag)) {
      return fail(ErrorCode::condition_failed, "'" + path.text() + "' has changed");
    }
    return rename_over(staging_, place);
  }

  std::shared_ptr<const FileDescriptor>
      root_;  // shared with the vfolder, which may be closed first
  SharedVolumeState volume_;
  const Place staging_;
  const std::uint64_t size_hint_;
  std::unique_ptr<io::FileAppender> appender_;
  bool name_is_durable_;                  // so that a resume finds it even after a power cut
  std::optional<FileDescriptor> target_;  // the directory it was renamed into, by then
};

}  // namespace

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

Result<std::unique_ptr<StagedFile>> open_staged_file(std::shared_ptr<const FileDescriptor> root,
                                                     const Uuid& upload, bool create,
                                                     std::uint64_t size_hint,
                                                     SharedVolumeState volume) {
  ASSIGN_OR_RETURN(FileDescriptor directory, open_staging_directory(root->get(), create));
  Place staging{std::move(directory), upload.hex()};
  const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT : 0);
  FileDescriptor file(::openat(staging.directory.get(), staging.name.c_str(), flags, kFileMode));
  if (!file) return fail_errno("open a staged upload");
  ASSIGN_OR_RETURN(const FileInfo info, stat_descriptor(file.get()));
  if (info.kind != FileKind::file) {  // others may have access to the directory, too
    return fail(ErrorCode::conflict, "the staged upload is not a regular file");
  }
  auto appender =
      io::FileAppender::open(std::move(file), info.size_bytes, {.size_hint = size_hint});
  if (!appender) {
    // Nothing of a new upload is kept that cannot even begin.
    if (info.size_bytes == 0) ::unlinkat(staging.directory.get(), staging.name.c_str(), 0);
    return tl::unexpected(std::move(appender).error());
  }
  return std::make_unique<PosixStagedFile>(std::move(root), std::move(volume), std::move(staging),
                                           size_hint, *std::move(appender));
}

}  // namespace onggi::backend
