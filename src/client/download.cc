#include "client/download.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "client/incoming_file.h"
#include "client/remote_url.h"

namespace onggi::client {

namespace {

namespace fs = std::filesystem;

struct Piece {
  std::size_t file;
  std::size_t index;
};

// A daemon is not trusted with where its files land.
bool stays_below(const std::string& path) {
  if (path.empty() || path.starts_with('/')) return false;
  const fs::path checked(path);
  return std::ranges::none_of(checked, [](const fs::path& part) { return part == ".."; });
}

bool is_here(const std::string& local, const RemoteEntry& entry) {
  struct stat info{};
  if (lstat(local.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const std::int64_t modified_ms =
      std::int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
  return static_cast<std::uint64_t>(info.st_size) == entry.size_bytes &&
         modified_ms >= entry.modified.time_since_epoch().count();
}

Status make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path.empty() ? "." : path, error);
  if (error) return tl::unexpected(error_from_errno(error.value(), path));
  return {};
}

class TreeDownload {
 public:
  TreeDownload(Client& client, RemotePlace place, std::string root, const TransferOptions& options,
               const DownloadLimits& limits)
      : client_(client),
        place_(std::move(place)),
        root_(std::move(root)),
        options_(options),
        limits_(limits),
        crew_(options, meter_),
        context_{client, meter_, crew_} {}

  Result<TransferSummary> run() {
    ASSIGN_OR_RETURN(const auto entries,
                     client_.list(place_.vfolder, place_.path, true, options_.cancelled));
    RETURN_IF_ERROR(make_folder(root_));
    for (const RemoteEntry& entry : entries) RETURN_IF_ERROR(plan(entry));
    RETURN_IF_ERROR(crew_.run(pieces_.size(), [this](std::size_t i) { return fetch(pieces_[i]); }));
    if (options_.verify) RETURN_IF_ERROR(verify());
    // One flush for all of them: file by file, a tree of small files would take minutes.
    if (options_.durable) RETURN_IF_ERROR(flush());
    const MutexLock lock(mutex_);
    return std::move(summary_);
  }

 private:
  Status plan(const RemoteEntry& entry) {
    const MutexLock lock(mutex_);
    if (!stays_below(entry.path)) {
      summary_.failures.push_back(
          {entry.path, Error(ErrorCode::invalid_argument, "is not a path below the vfolder")});
      return {};
    }
    const std::string local = join_path(root_, entry.path);
    if (entry.kind == "directory") return make_folder(local);
    if (entry.kind != "file") {
      summary_.warnings.push_back(
          fmt::format("{}: left out, {}", entry.path,
                      entry.kind == "symlink" ? "a symbolic link" : "not a regular file"));
      return {};
    }
    if (!options_.force && is_here(local, entry)) {
      ++summary_.files_skipped;
      return {};
    }
    files_.push_back(std::make_unique<IncomingFile>(IncomingFileSpec{
        .target = vfolder_target(place_.vfolder, "files", join_path(place_.path, entry.path)),
        .local = local,
        .size_bytes = entry.size_bytes,
        .modified = entry.modified,
        .etag = entry.etag,
        .piece_bytes = limits_.piece_bytes,
        .state_folder = options_.state_folder,
        .durable = false}));
    meter_.expect(1, entry.size_bytes);
    for (std::size_t i = 0; i < files_.back()->pieces(); ++i) {
      pieces_.push_back({files_.size() - 1, i});
    }
    return {};
  }

  Status fetch(const Piece& piece) {
    IncomingFile& file = *files_[piece.file];
    if (piece.index == 0) meter_.begin(file.spec().local);
    const Result<bool> complete = file.fetch(context_, piece.index);
    if (!complete) return note_failure(file, complete.error());
    if (!*complete) return {};
    meter_.add_files(1);
    const MutexLock lock(mutex_);
    ++summary_.files;
    summary_.size_bytes += file.spec().size_bytes;
    summary_.bytes_resumed += file.bytes_resumed();
    fetched_.push_back(piece.file);
    return {};
  }

  Status verify() {
    std::vector<std::size_t> fetched;
    {
      const MutexLock lock(mutex_);
      fetched = fetched_;
    }
    for (const std::size_t i : fetched) meter_.expect(0, files_[i]->spec().size_bytes);
    return crew_.run(fetched.size(), [this, &fetched](std::size_t i) -> Status {
      IncomingFile& file = *files_[fetched[i]];
      const Status same = file.verify(context_);
      return same ? Status() : note_failure(file, same.error());
    });
  }

  Status flush() const {
    const FileDescriptor folder(open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || syncfs(folder.get()) != 0) return fail_errno(root_);
    return {};
  }

  Status note_failure(const IncomingFile& file, const Error& error) {
    if (ends_transfer(error.code())) return tl::unexpected(Error(error));
    const MutexLock lock(mutex_);
    summary_.failures.push_back({file.spec().local, error});
    return {};
  }

  Client& client_;
  const RemotePlace place_;
  const std::string root_;
  const TransferOptions& options_;
  const DownloadLimits limits_;
  Meter meter_;
  Crew crew_;
  const IncomingContext context_;
  std::vector<std::unique_ptr<IncomingFile>> files_;
  std::vector<Piece> pieces_;
  Mutex mutex_;
  TransferSummary summary_ GUARDED_BY(mutex_);
  std::vector<std::size_t> fetched_ GUARDED_BY(mutex_);
};

}  // namespace

Result<TransferSummary> download_file(Client& client, const RemotePlace& place,
                                      const std::string& local, const TransferOptions& options,
                                      const DownloadLimits& limits) {
  ASSIGN_OR_RETURN(const RemoteEntry entry, client.stat(place.vfolder, place.path));
  if (entry.kind != "file") {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is a {}, not a file", place.path, entry.kind));
  }
  RETURN_IF_ERROR(make_folder(fs::path(local).parent_path().string()));
  Meter meter;
  Crew crew(options, meter);
  IncomingFile file({.target = vfolder_target(place.vfolder, "files", place.path),
                     .local = local,
                     .size_bytes = entry.size_bytes,
                     .modified = entry.modified,
                     .etag = entry.etag,
                     .piece_bytes = limits.piece_bytes,
                     .state_folder = options.state_folder,
                     .durable = options.durable});
  const IncomingContext context{client, meter, crew};
  meter.expect(1, entry.size_bytes * (options.verify ? 2 : 1));
  meter.begin(local);
  const Status fetched = crew.run(file.pieces(), [&](std::size_t piece) -> Status {
    ASSIGN_OR_RETURN(const bool complete, file.fetch(context, piece));
    if (complete) meter.add_files(1);
    return {};
  });
  RETURN_IF_ERROR(fetched);
  if (options.verify) RETURN_IF_ERROR(file.verify(context));
  return TransferSummary{
      .files = 1, .size_bytes = entry.size_bytes, .bytes_resumed = file.bytes_resumed()};
}

Result<TransferSummary> download_tree(Client& client, const RemotePlace& place,
                                      const std::string& local, const TransferOptions& options,
                                      const DownloadLimits& limits) {
  return TreeDownload(client, place, local, options, limits).run();
}

}  // namespace onggi::client
