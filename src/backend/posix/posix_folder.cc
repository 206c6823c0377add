#include "backend/posix/posix_folder.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "backend/posix/beneath.h"
#include "backend/posix/posix_staged_file.h"
#include "backend/posix/removal.h"
#include "backend/posix/walk.h"

namespace onggi::backend {
namespace {

constexpr std::uint32_t kNewDirectoryMode = 0775;

class PosixReadHandle final : public ReadHandle {
 public:
  PosixReadHandle(FileDescriptor file, FileInfo info)
      : file_(std::move(file)), info_(std::move(info)) {}

  const FileInfo& info() const override { return info_; }
  std::optional<int> descriptor() const override { return file_.get(); }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) override {
    return read_at(file_.get(), offset, buffer);
  }

 private:
  FileDescriptor file_;
  FileInfo info_;
};

class PosixFolder final : public Folder {
 public:
  PosixFolder(FileDescriptor root, SharedVolumeState volume)
      : root_(std::make_shared<const FileDescriptor>(std::move(root))),
        volume_(std::move(volume)) {}

  Result<FileInfo> stat(const RelPath& path) override {
    if (path.is_root()) return stat_descriptor(root());
    ASSIGN_OR_RETURN(const Place place, open_parent(root(), path, O_PATH));
    return stat_name(place.directory.get(), place.name);
  }

  Result<ListPage> list(const RelPath& path, const ListOptions& options) override {
    return list_directory(root(), path, options);
  }

  Result<std::unique_ptr<ReadHandle>> open(const RelPath& path) override {
    // O_NONBLOCK: opening a FIFO that somebody put there must not wait for a writer.
    ASSIGN_OR_RETURN(FileDescriptor file,
                     open_beneath(root(), path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    ASSIGN_OR_RETURN(FileInfo info, stat_descriptor(file.get()));
    if (info.kind != FileKind::file) {
      return fail(ErrorCode::invalid_argument, "'" + path.text() + "' is not a regular file");
    }
    return std::make_unique<PosixReadHandle>(std::move(file), std::move(info));
  }

  Result<std::unique_ptr<StagedFile>> stage(const Uuid& upload, bool create,
                                            std::uint64_t size_hint) override {
    return open_staged_file(root_, upload, create, size_hint, volume_);
  }

  Status make_directory(const RelPath& path, bool parents) override {
    const auto exists = [&] {
      return fail(ErrorCode::already_exists, "'" + path.text() + "' exists already");
    };
    if (path.is_root()) return exists();
    ASSIGN_OR_RETURN(const Place place, place_of(path, parents));
    const auto made = backend::make_directory(place.directory.get(), place.name, kNewDirectoryMode);
    if (!made && made.error().code() == ErrorCode::already_exists) return exists();
    if (!made) return tl::unexpected(made.error());
    return volume_->directories.sync(place.directory.get());
  }

  Status move(const RelPath& from, const RelPath& to, const MoveOptions& options) override {
    ASSIGN_OR_RETURN(const Place source, open_parent(root(), from, O_RDONLY));
    RETURN_IF_ERROR(stat_name(source.directory.get(), source.name));  // before making parents
    ASSIGN_OR_RETURN(const Place target, place_of(to, options.create_parents));
    RETURN_IF_ERROR(rename(source, target, options.replace));
    RETURN_IF_ERROR(volume_->directories.sync(target.directory.get()));
    return volume_->directories.sync(source.directory.get());
  }

  Status remove(const RelPath& path, bool recursive) override {
    ASSIGN_OR_RETURN(const Place place, open_parent(root(), path, O_RDONLY));
    const int directory = place.directory.get();
    std::optional<Place> away;
    {
      const NameLock lock(volume_->locks, place);
      ASSIGN_OR_RETURN(const FileInfo info, stat_name(directory, place.name));
      const int flags = info.kind == FileKind::directory ? AT_REMOVEDIR : 0;
      if (::unlinkat(directory, place.name.c_str(), flags) != 0) {
        if (!recursive || (errno != ENOTEMPTY && errno != EEXIST)) return fail_errno(path.text());
        ASSIGN_OR_RETURN(away, put_away(place));
      }
    }
    RETURN_IF_ERROR(volume_->directories.sync(directory));
    return away ? remove_tree(away->directory.get(), away->name) : Status();
  }

  Result<Usage> usage() override { return count_usage(root()); }

  Status sync() override {
    if (::syncfs(root()) != 0) return fail_errno("make durable");
    return {};
  }

  Result<std::size_t> collect_staging(const std::vector<Uuid>& keep, UnixTime before) override;

  std::optional<int> descriptor() const override { return root(); }

 private:
  int root() const { return root_->get(); }

  // Where a new name goes, its directory made if need be.
  Result<Place> place_of(const RelPath& path, bool create_parents) const {
    if (path.is_root() || !create_parents) return open_parent(root(), path, O_RDONLY);
    ASSIGN_OR_RETURN(FileDescriptor directory, make_directories(root(), path.parent(), true));
    return Place{std::move(directory), std::string(path.name())};
  }

  Status rename(const Place& source, const Place& target, bool replace) {
    const NameLock lock(volume_->locks, source, target);
    return replace ? rename_over(source, target) : rename_to_new(source, target);
  }

  // Moves a tree to be removed into the staging directory, so that others see all of it or nothing
  // and a crash leaves it to collect_staging(). Where that is not allowed it stays where it is.
  Result<Place> put_away(const Place& place) const {
    ASSIGN_OR_RETURN(FileDescriptor staging, open_staging_directory(root(), true));
    Place away{std::move(staging), Uuid::random().hex()};
    if (::renameat(place.directory.get(), place.name.c_str(), away.directory.get(),
                   away.name.c_str()) == 0) {
      return away;
    }
    FileDescriptor same(::fcntl(place.directory.get(), F_DUPFD_CLOEXEC, 0));
    if (!same) return fail_errno(place.name);
    return Place{std::move(same), place.name};
  }

  // Shared with staged files, which may be closed later.
  std::shared_ptr<const FileDescriptor> root_;
  SharedVolumeState volume_;
};

// What cannot be removed does not keep the others: its error is told at the end.
Result<std::size_t> PosixFolder::collect_staging(const std::vector<Uuid>& keep, UnixTime before) {
  auto staging = open_staging_directory(root(), false);
  if (!staging && staging.error().code() == ErrorCode::not_found) return 0;
  if (!staging) return tl::unexpected(std::move(staging).error());
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(staging->get()), &::closedir);
  if (!stream) return fail_errno("open the staging directory");
  const int directory = staging->release();
  std::size_t count = 0;
  Status status;
  while (const dirent* entry = ::readdir(stream.get())) {
    const auto id = Uuid::parse(entry->d_name);
    if (!id || std::find(keep.begin(), keep.end(), *id) != keep.end()) continue;
    const auto info = stat_name(directory, entry->d_name);
    if (!info || info->modified >= before) continue;
    const auto removed = remove_tree(directory, entry->d_name);
    if (removed) ++count;
    if (!removed) status = removed;
  }
  if (!status) return tl::unexpected(std::move(status).error());
  return count;
}

}  // namespace

std::unique_ptr<Folder> make_posix_folder(FileDescriptor root, SharedVolumeState volume) {
  return std::make_unique<PosixFolder>(std::move(root), std::move(volume));
}

}  // namespace onggi::backend
