#include "backend/posix/posix_folder.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/posix/beneath.h"
#include "backend/posix/posix_staged_file.h"
#include "backend/posix/walk.h"
#include "base/mutex.h"

namespace onggi::backend {
namespace {

class PosixReadHandle final : public ReadHandle {
 public:
  PosixReadHandle(FileDescriptor file, FileInfo info)
      : file_(std::move(file)), info_(std::move(info)) {}

  const FileInfo& info() const override { return info_; }
  std::optional<int> descriptor() const override { return file_.get(); }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> buffer) override {
    std::size_t done = 0;
    while (done < buffer.size()) {
      const ssize_t count = ::pread(file_.get(), buffer.data() + done, buffer.size() - done,
                                    static_cast<off_t>(offset + done));
      if (count == 0) break;
      if (count < 0 && errno != EINTR) return fail_errno("read");
      if (count > 0) done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  FileDescriptor file_;
  FileInfo info_;
};

class PosixFolder final : public Folder {
 public:
  explicit PosixFolder(FileDescriptor root) : root_(std::move(root)) {}

  Result<FileInfo> stat(const RelPath& path) override {
    if (path.is_root()) return stat_descriptor(root_.get());
    ASSIGN_OR_RETURN(const Place place, open_parent(root_.get(), path));
    return stat_name(place.directory.get(), place.name);
  }

  Result<ListPage> list(const RelPath& path, const ListOptions& options) override {
    return list_directory(root_.get(), path, options);
  }

  Result<std::unique_ptr<ReadHandle>> open(const RelPath& path) override {
    // O_NONBLOCK: opening a FIFO that somebody put there must not wait for a writer.
    ASSIGN_OR_RETURN(FileDescriptor file,
                     open_beneath(root_.get(), path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    ASSIGN_OR_RETURN(FileInfo info, stat_descriptor(file.get()));
    if (info.kind != FileKind::file) {
      return fail(ErrorCode::invalid_argument, "'" + path.text() + "' is not a regular file");
    }
    return std::make_unique<PosixReadHandle>(std::move(file), std::move(info));
  }

  Result<std::unique_ptr<StagedFile>> stage(const Uuid& upload, bool create,
                                            std::uint64_t size_hint) override {
    return open_staged_file(root_.get(), upload, create, size_hint, commits_);
  }

  Status make_directory(const RelPath& path, bool parents) override {
    ASSIGN_OR_RETURN(const FileDescriptor parent,
                     parents ? make_directories(root_.get(), path.parent(), true)
                             : open_beneath(root_.get(), path.parent(), O_RDONLY | O_DIRECTORY));
    const std::string name(path.name());
    if (::mkdirat(parent.get(), name.c_str(), 0775) != 0) {
      if (errno == EEXIST || path.is_root()) {
        return fail(ErrorCode::already_exists, "'" + path.text() + "' exists already");
      }
      return fail_errno(path.text());
    }
    ::fchmodat(parent.get(), name.c_str(), 0775, 0);  // whatever the umask
    return sync_descriptor(parent.get());
  }

  Status move(const RelPath& from, const RelPath& to, const MoveOptions& options) override {
    ASSIGN_OR_RETURN(const Place source, open_parent(root_.get(), from));
    if (to.is_root()) return open_parent(root_.get(), to).map([](const Place&) {});
    RETURN_IF_ERROR(stat_name(source.directory.get(), source.name));  // before making parents
    ASSIGN_OR_RETURN(const FileDescriptor target,
                     options.create_parents
                         ? make_directories(root_.get(), to.parent(), true)
                         : open_beneath(root_.get(), to.parent(), O_RDONLY | O_DIRECTORY));
    const std::string name(to.name());
    if (::renameat2(source.directory.get(), source.name.c_str(), target.get(), name.c_str(),
                    options.replace ? 0 : RENAME_NOREPLACE) != 0) {
      if (errno == EINVAL) {
        return fail(ErrorCode::invalid_argument, "a directory cannot be moved into itself");
      }
      if (errno == EISDIR || errno == ENOTDIR) {
        return fail(ErrorCode::conflict, "a file and a directory cannot replace each other");
      }
      return fail_errno(to.text());
    }
    RETURN_IF_ERROR(sync_descriptor(target.get()));
    ASSIGN_OR_RETURN(const FileDescriptor left,
                     open_beneath(root_.get(), from.parent(), O_RDONLY | O_DIRECTORY));
    return sync_descriptor(left.get());
  }

  Status remove(const RelPath& path, bool recursive) override {
    ASSIGN_OR_RETURN(const Place place, open_parent(root_.get(), path));
    ASSIGN_OR_RETURN(const FileInfo info, stat_name(place.directory.get(), place.name));
    if (info.kind == FileKind::directory && recursive) {
      return remove_tree(place.directory.get(), place.name);
    }
    const int flags = info.kind == FileKind::directory ? AT_REMOVEDIR : 0;
    if (::unlinkat(place.directory.get(), place.name.c_str(), flags) != 0) {
      return fail_errno(path.text());
    }
    return {};
  }

  Result<Usage> usage() override { return count_usage(root_.get()); }

  Status sync() override {
    if (::syncfs(root_.get()) != 0) return fail_errno("make durable");
    return {};
  }

  Result<std::size_t> collect_staging(const std::vector<Uuid>& keep, UnixTime before) override;

  std::optional<int> descriptor() const override { return root_.get(); }

 private:
  FileDescriptor root_;
  Mutex commits_;
};

Result<std::size_t> PosixFolder::collect_staging(const std::vector<Uuid>& keep, UnixTime before) {
  FileDescriptor staging(
      ::openat(root_.get(), kStagingDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!staging) {
    if (errno == ENOENT) return 0;
    return fail_errno("open the staging directory");
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(staging.get()), &::closedir);
  if (!stream) return fail_errno("open the staging directory");
  const int directory = staging.release();
  std::size_t removed = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const auto id = Uuid::parse(entry->d_name);
    if (!id || std::find(keep.begin(), keep.end(), *id) != keep.end()) continue;
    const auto info = stat_name(directory, entry->d_name);
    if (!info || info->modified >= before) continue;
    RETURN_IF_ERROR(remove_tree(directory, entry->d_name));
    ++removed;
  }
  return removed;
}

}  // namespace

std::unique_ptr<Folder> make_posix_folder(FileDescriptor root) {
  return std::make_unique<PosixFolder>(std::move(root));
}

}  // namespace onggi::backend
