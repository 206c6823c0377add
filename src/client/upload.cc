#include "client/upload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/encoding.h"
#include "base/file_descriptor.h"
#include "client/local_tree.h"
#include "client/remote_url.h"
#include "client/tar_writer.h"

namespace onggi::client {

namespace {

constexpr int kPieceAttemptsMax = 8;

std::string checksum_header(std::uint64_t value) {
  return fmt::format("xxh3={:016x}", value);
}

// TUS wants base64 of the digest's bytes, most significant first.
std::string tus_checksum(std::uint64_t value) {
  std::array<std::byte, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(value >> (8 * (bytes.size() - 1 - i)));
  }
  return "xxh3 " + base64_encode(bytes);
}

// A local file as it was when opened; it must stay so until it is sent.
struct OpenLocal {
  FileDescriptor file;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  std::uint64_t inode = 0;
};

struct Version {
  std::uint64_t size_bytes;
  std::int64_t modified_ns;
  std::uint64_t inode;
};

Result<Version> version_of(int fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return fail_errno(path);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is not a regular file", path));
  }
  return Version{static_cast<std::uint64_t>(info.st_size),
                 std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
                 info.st_ino};
}

Result<OpenLocal> open_local(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fail_errno(path);
  ASSIGN_OR_RETURN(const Version version, version_of(file.get(), path));
  return OpenLocal{std::move(file), version.size_bytes, version.modified_ns, version.inode};
}

Status check_unchanged(const OpenLocal& local, const std::string& path) {
  ASSIGN_OR_RETURN(const Version now, version_of(local.file.get(), path));
  if (now.size_bytes == local.size_bytes && now.modified_ns == local.modified_ns) return {};
  return fail(ErrorCode::conflict, fmt::format("{} changed while it was read", path));
}

Status read_exactly(const OpenLocal& local, const std::string& path, std::uint64_t offset,
                    std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count =
        pread(local.file.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(path);
    if (count == 0) {
      return fail(ErrorCode::conflict, fmt::format("{} became shorter while it was read", path));
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

// What all requests of one transfer share.
struct Context {
  Client& client;
  const TransferOptions& options;
  const UploadLimits& limits;
  Meter& meter;
  Crew& crew;

  // Reports body bytes as they leave, as a difference, so that a repeated attempt counts once.
  CallHooks hooks(std::uint64_t& reported) const {
    return {.sent =
                [this, &reported](std::uint64_t total) {
                  meter.add_bytes(static_cast<std::int64_t>(total) -
                                  static_cast<std::int64_t>(reported));
                  reported = total;
                },
            .cancelled = [this] { return crew.stopping(); }};
  }
  std::string durable_query() const { return options.durable ? "" : "?durable=false"; }
};

// One file below 8 MiB: one request.
Result<std::uint64_t> put_whole(const Context& context, const std::string& path,
                                const OpenLocal& local, const RemotePlace& place) {
  std::vector<std::byte> bytes(local.size_bytes);
  RETURN_IF_ERROR(read_exactly(local, path, 0, bytes));
  RETURN_IF_ERROR(check_unchanged(local, path));
  const std::uint64_t checksum = xxh3(bytes);
  const HttpRequest request{
      .method = "PUT",
      .target = vfolder_target(place.vfolder, "files", place.path) + context.durable_query(),
      .headers = {{"Content-Type", "application/octet-stream"},
                  {"Onggi-Checksum", checksum_header(checksum)}},
      .body = bytes};
  std::uint64_t reported = 0;
  RETURN_IF_ERROR(context.client.perform(request, context.hooks(reported)));
  return checksum;
}

// One large file by TUS 1.0.0, piece by piece, each verified by the daemon on arrival.
class ResumableUpload {
 public:
  ResumableUpload(const Context& context, const std::string& path, const OpenLocal& local,
                  const RemotePlace& place)
      : context_(context),
        path_(path),
        local_(local),
        place_(place),
        state_(context.options.state_folder,
               fmt::format("upload\n{}\n{}\n{}\n{}", context.client.connection().base_url,
                           place.vfolder, place.path, path)) {}

  // Returns how many bytes an earlier attempt had brought.
  Result<std::uint64_t> run() {
    ASSIGN_OR_RETURN(std::uint64_t offset, find_start());
    const std::uint64_t resumed = offset;
    context_.meter.add_bytes(static_cast<std::int64_t>(offset));
    int failures = 0;
    while (offset < local_.size_bytes) {
      Status sent = send_piece(offset);
      if (sent) {
        failures = 0;
        continue;
      }
      if (!worth_another_try(sent.error()) || ++failures >= kPieceAttemptsMax) {
        return give_up(std::move(sent).error());
      }
      ASSIGN_OR_RETURN(const std::optional<std::uint64_t> known, ask_offset());
      if (!known) return give_up(std::move(sent).error());
      context_.meter.add_bytes(static_cast<std::int64_t>(*known) -
                               static_cast<std::int64_t>(offset));
      offset = *known;
    }
    state_.forget();
    return resumed;
  }

 private:
  static bool worth_another_try(const Error& error) {
    return error.retryable() || error.code() == ErrorCode::conflict ||
           error.code() == ErrorCode::corruption;
  }

  // What came so far is worth keeping only when the daemon may come back.
  tl::unexpected<Error> give_up(Error error) {
    if (error.code() != ErrorCode::cancelled && !error.retryable()) state_.forget();
    return tl::unexpected(std::move(error));
  }

  Result<std::uint64_t> find_start() {
    if (const boost::json::object saved = state_.load(); is_same_file(saved)) {
      location_ = std::string(saved.at("location").get_string());
      ASSIGN_OR_RETURN(const std::optional<std::uint64_t> offset, ask_offset());
      if (offset) return *offset;
    }
    RETURN_IF_ERROR(create());
    return 0;
  }

  bool is_same_file(const boost::json::object& saved) const {
    const boost::json::value* location = saved.if_contains("location");
    return location != nullptr && location->is_string() && saved == remembered_as(*location);
  }

  boost::json::object remembered_as(const boost::json::value& location) const {
    return {{"location", location},
            {"size_bytes", fmt::format("{}", local_.size_bytes)},
            {"modified_ns", fmt::format("{}", local_.modified_ns)},
            {"inode", fmt::format("{}", local_.inode)}};
  }

  Status create() {
    const HttpRequest request{
        .method = "POST",
        .target = fmt::format("/v1/vfolders/{}/uploads", place_.vfolder),
        .headers = {{"Tus-Resumable", "1.0.0"},
                    {"Upload-Length", fmt::format("{}", local_.size_bytes)},
                    {"Upload-Metadata", "path " + base64_encode(as_bytes(place_.path))}}};
    ASSIGN_OR_RETURN(const HttpResponse response, context_.client.perform(request, quiet()));
    std::string_view location = response.header("location").value_or("");
    const std::string& base = context_.client.connection().base_url;
    if (location.starts_with(base)) location.remove_prefix(base.size());
    if (!location.starts_with('/')) {
      return fail(ErrorCode::internal, "the daemon began an upload without saying where");
    }
    location_ = location;
    state_.save(remembered_as(boost::json::string(location_)));
    return {};
  }

  // Sends the piece at `offset` and moves it past the piece.
  Status send_piece(std::uint64_t& offset) {
    piece_.resize(std::min(context_.limits.piece_bytes, local_.size_bytes - offset));
    RETURN_IF_ERROR(read_exactly(local_, path_, offset, piece_));
    const bool last = offset + piece_.size() == local_.size_bytes;
    if (last) RETURN_IF_ERROR(check_unchanged(local_, path_));
    const HttpRequest request{.method = "PATCH",
                              .target = location_,
                              .headers = {{"Tus-Resumable", "1.0.0"},
                                          {"Upload-Offset", fmt::format("{}", offset)},
                                          {"Upload-Checksum", tus_checksum(xxh3(piece_))},
                                          {"Content-Type", "application/offset+octet-stream"}},
                              .body = piece_};
    std::uint64_t reported = 0;
    const auto sent = context_.client.perform(request, context_.hooks(reported));
    if (!sent) {
      context_.meter.add_bytes(-static_cast<std::int64_t>(reported));
      return tl::unexpected(sent.error());
    }
    offset += piece_.size();
    return {};
  }

  // None when the daemon no longer knows this upload.
  Result<std::optional<std::uint64_t>> ask_offset() {
    const HttpRequest request{
        .method = "HEAD", .target = location_, .headers = {{"Tus-Resumable", "1.0.0"}}};
    ASSIGN_OR_RETURN(const HttpResponse response, context_.client.exchange(request, quiet()));
    if (response.status == 404 || response.status == 410) return std::nullopt;
    std::uint64_t offset = 0;
    const std::string_view text = response.header("upload-offset").value_or("");
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), offset);
    if (!response.ok() || parsed.ec != std::errc() || offset > local_.size_bytes) {
      return fail(ErrorCode::internal, fmt::format("the daemon did not say how far {} got ({})",
                                                   path_, response.status));
    }
    return offset;
  }

  CallHooks quiet() const {
    return {.cancelled = [this] { return context_.crew.stopping(); }};
  }

  const Context& context_;
  const std::string& path_;
  const OpenLocal& local_;
  const RemotePlace& place_;
  const TransferState state_;
  std::string location_;
  std::vector<std::byte> piece_;
};

// One file by the way that fits its size. Returns the bytes that need not be sent again.
Result<std::uint64_t> send_file(const Context& context, const std::string& path,
                                const RemotePlace& place) {
  ASSIGN_OR_RETURN(const OpenLocal local, open_local(path));
  if (local.size_bytes < context.limits.tus_bytes_min) {
    RETURN_IF_ERROR(put_whole(context, path, local, place));
    return 0;
  }
  return ResumableUpload(context, path, local, place).run();
}

Result<std::uint64_t> local_checksum(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenLocal local, open_local(path));
  Xxh3 checksum;
  std::vector<std::byte> piece(1 << 20);
  for (std::uint64_t at = 0; at < local.size_bytes; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), local.size_bytes - at));
    RETURN_IF_ERROR(read_exactly(local, path, at, piece));
    checksum.update(piece);
  }
  return checksum.digest();
}

// Reads the file back from the daemon and compares it with the one here.
Status verify_file(const Context& context, const std::string& path, const RemotePlace& place) {
  ASSIGN_OR_RETURN(const std::uint64_t expected, local_checksum(path));
  Xxh3 checksum;
  const CallHooks hooks{.sink = [&](std::span<const std::byte> piece) -> Status {
                          checksum.update(piece);
                          context.meter.add_bytes(static_cast<std::int64_t>(piece.size()));
                          return {};
                        },
                        .cancelled = [&] { return context.crew.stopping(); }};
  const HttpRequest request{.target = vfolder_target(place.vfolder, "files", place.path)};
  RETURN_IF_ERROR(context.client.perform(request, hooks));
  if (checksum.digest() == expected) return {};
  return fail(ErrorCode::corruption, "what was stored differs from what is here");
}

// What a tree's upload sends in one request or, for a large file, one series of them.
struct Job {
  std::vector<const LocalFile*> files = {};
  std::vector<std::string> directories = {};  // empty ones
  bool batch = false;
};

class TreeUpload {
 public:
  TreeUpload(Client& client, std::string root, RemotePlace place, const TransferOptions& options,
             const UploadLimits& limits)
      : root_(std::move(root)),
        place_(std::move(place)),
        crew_(options, meter_),
        context_{client, options, limits, meter_, crew_} {}

  Result<TransferSummary> run() {
    ASSIGN_OR_RETURN(tree_, walk_tree(root_, context_.options.cancelled));
    RETURN_IF_ERROR(look_there());
    plan();
    Status sent = crew_.run(jobs_.size(), [this](std::size_t i) { return work(jobs_[i]); });
    if (sent && context_.options.verify) sent = verify();
    if (!sent) return tl::unexpected(std::move(sent).error());
    const MutexLock lock(mutex_);
    summary_.warnings = std::move(tree_.warnings);
    summary_.files_skipped = tree_.files.size() - to_send_.size();
    return std::move(summary_);
  }

 private:
  Status look_there() {
    if (context_.options.force) return {};
    auto entries =
        context_.client.list(place_.vfolder, place_.path, true, context_.options.cancelled);
    if (!entries && entries.error().code() == ErrorCode::not_found) return {};
    RETURN_IF_ERROR(entries);
    for (RemoteEntry& entry : *entries) {
      if (entry.kind == "file") there_.emplace(entry.path, std::move(entry));
    }
    return {};
  }

  bool is_there(const LocalFile& file) const {
    const auto found = there_.find(file.path);
    return found != there_.end() && found->second.size_bytes == file.size_bytes &&
           found->second.modified.time_since_epoch().count() >= file.modified_ms;
  }

  void plan() {
    Job batch{.batch = true};
    std::uint64_t batch_bytes = 0;
    const UploadLimits& limits = context_.limits;
    for (const LocalFile& file : tree_.files) {
      if (is_there(file)) continue;
      to_send_.push_back(&file);
      meter_.expect(1, file.size_bytes);
      if (file.size_bytes > limits.batch_file_bytes_max) {
        jobs_.push_back({.files = {&file}});
        continue;
      }
      if (batch.files.size() >= limits.batch_files_max ||
          batch_bytes + file.size_bytes > limits.batch_bytes_max) {
        jobs_.push_back(std::exchange(batch, {.batch = true}));
        batch_bytes = 0;
      }
      batch.files.push_back(&file);
      batch_bytes += file.size_bytes;
    }
    batch.directories = tree_.empty_directories;
    if (!batch.files.empty() || !batch.directories.empty()) jobs_.push_back(std::move(batch));
  }

  Status work(const Job& job) {
    if (!job.files.empty()) meter_.begin(job.files.front()->path);
    return job.batch ? send_batch(job) : send_single(*job.files.front());
  }

  Status send_single(const LocalFile& file) {
    const Result<std::uint64_t> resumed = send_file(context_, local_path(file), place_of(file));
    if (!resumed) return note_failure(file.path, resumed.error());
    const MutexLock lock(mutex_);
    summary_.bytes_resumed += *resumed;
    note_success(file);
    return {};
  }

  Status send_batch(const Job& job) {
    TarWriter archive;
    std::vector<const LocalFile*> packed;
    for (const LocalFile* file : job.files) {
      if (Status added = pack(archive, *file); !added) {
        RETURN_IF_ERROR(note_failure(file->path, added.error()));
        continue;
      }
      packed.push_back(file);
    }
    for (const std::string& directory : job.directories) {
      RETURN_IF_ERROR(archive.add_directory(directory));
    }
    const std::span<const std::byte> bytes = archive.finish();
    const HttpRequest request{.method = "PUT",
                              .target = vfolder_target(place_.vfolder, "archive", place_.path),
                              .headers = {{"Content-Type", "application/x-tar"},
                                          {"Onggi-Checksum", checksum_header(xxh3(bytes))}},
                              .body = bytes};
    const auto sent =
        context_.client.perform(request, {.cancelled = [this] { return crew_.stopping(); }});
    Status kept = sent ? check_counts(*sent, archive.files()) : tl::unexpected(sent.error());
    // One bad name spoils a batch: its files then go one by one, so that only that one fails.
    if (!kept && !ends_transfer(kept.error().code()) && !packed.empty()) {
      for (const LocalFile* file : packed) RETURN_IF_ERROR(send_single(*file));
      return {};
    }
    if (!kept) return note_failure(place_.path, kept.error());
    const MutexLock lock(mutex_);
    for (const LocalFile* file : packed) {
      meter_.add_bytes(static_cast<std::int64_t>(file->size_bytes));
      note_success(*file);
    }
    return {};
  }

  static Status check_counts(const HttpResponse& response, std::size_t files) {
    boost::system::error_code error;
    const boost::json::value answer = boost::json::parse(response.body, error);
    const boost::json::object* object = error ? nullptr : answer.if_object();
    const boost::json::value* count = object == nullptr ? nullptr : object->if_contains("files");
    if (count != nullptr && *count == boost::json::value(files)) return {};
    return fail(ErrorCode::corruption,
                "the daemon unpacked another number of files than were sent");
  }

  Status pack(TarWriter& archive, const LocalFile& file) {
    const std::string path = local_path(file);
    ASSIGN_OR_RETURN(const OpenLocal local, open_local(path));
    if (local.size_bytes != file.size_bytes) {
      return fail(ErrorCode::conflict, "changed since the transfer began");
    }
    ASSIGN_OR_RETURN(const std::span<std::byte> room,
                     archive.add_file(file.path, file.size_bytes, file.modified_ms / 1000));
    Status read = read_exactly(local, path, 0, room);
    if (!read) archive.drop_last();
    return read;
  }

  Status verify() {
    for (const LocalFile* file : to_send_) meter_.expect(0, file->size_bytes);
    return crew_.run(to_send_.size(), [this](std::size_t i) -> Status {
      const LocalFile& file = *to_send_[i];
      meter_.begin(file.path);
      const Status same = verify_file(context_, local_path(file), place_of(file));
      return same ? Status() : note_failure(file.path, same.error());
    });
  }

  void note_success(const LocalFile& file) REQUIRES_LOCK(mutex_) {
    ++summary_.files;
    summary_.size_bytes += file.size_bytes;
    meter_.add_files(1);
  }

  // The error itself when no other file could do better.
  Status note_failure(const std::string& path, const Error& error) {
    if (ends_transfer(error.code())) return tl::unexpected(Error(error));
    const MutexLock lock(mutex_);
    summary_.failures.push_back({path, error});
    return {};
  }

  std::string local_path(const LocalFile& file) const { return join_path(root_, file.path); }
  RemotePlace place_of(const LocalFile& file) const {
    return {place_.vfolder, join_path(place_.path, file.path)};
  }

  const std::string root_;
  const RemotePlace place_;
  Meter meter_;
  Crew crew_;
  const Context context_;
  LocalTree tree_;
  std::unordered_map<std::string, RemoteEntry> there_;
  std::vector<Job> jobs_;
  std::vector<const LocalFile*> to_send_;
  Mutex mutex_;
  TransferSummary summary_ GUARDED_BY(mutex_);
};

}  // namespace

Result<TransferSummary> upload_file(Client& client, const std::string& local,
                                    const RemotePlace& place, const TransferOptions& options,
                                    const UploadLimits& limits) {
  ASSIGN_OR_RETURN(const OpenLocal opened, open_local(local));
  Meter meter;
  Crew crew(options, meter);
  const Context context{client, options, limits, meter, crew};
  meter.expect(1, opened.size_bytes * (options.verify ? 2 : 1));
  meter.begin(local);
  TransferSummary summary{.files = 1, .size_bytes = opened.size_bytes};
  const Status sent = crew.run(1, [&](std::size_t) -> Status {
    ASSIGN_OR_RETURN(summary.bytes_resumed, send_file(context, local, place));
    if (options.verify) RETURN_IF_ERROR(verify_file(context, local, place));
    meter.add_files(1);
    return {};
  });
  RETURN_IF_ERROR(sent);
  return summary;
}

Result<TransferSummary> upload_tree(Client& client, const std::string& local,
                                    const RemotePlace& place, const TransferOptions& options,
                                    const UploadLimits& limits) {
  return TreeUpload(client, local, place, options, limits).run();
}

}  // namespace onggi::client
