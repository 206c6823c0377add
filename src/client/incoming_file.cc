#include "client/incoming_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/encoding.h"
#include "base/write.h"
#include "client/local_tree.h"

namespace onggi::client {

namespace {

constexpr int kAttemptsMax = 6;
constexpr std::size_t kReadBytes = 1 << 20;
constexpr std::size_t kNameBytesMax = 255;

std::string part_path(const std::string& local) {
  const std::filesystem::path path(local);
  std::string name = fmt::format(".{}{}", path.filename().string(), kPartSuffix);
  if (name.size() > kNameBytesMax) {
    name = fmt::format(".{:016x}{}", xxh3(as_bytes(path.filename().string())), kPartSuffix);
  }
  return (path.parent_path() / name).string();
}

// The checksum of a stretch of a file; none when it cannot be read or ends early.
std::optional<std::uint64_t> checksum_of(int fd, std::uint64_t begin, std::uint64_t end) {
  Xxh3 checksum;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kReadBytes, end - begin));
  while (begin < end) {
    const std::size_t want = std::min<std::uint64_t>(buffer.size(), end - begin);
    const ssize_t count = pread(fd, buffer.data(), want, static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    checksum.update(std::span(buffer).first(static_cast<std::size_t>(count)));
    begin += static_cast<std::uint64_t>(count);
  }
  return checksum.digest();
}

std::optional<std::uint64_t> parse_hex(const boost::json::value& value) {
  const boost::json::string* text = value.if_string();
  if (text == nullptr) return std::nullopt;
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), number, 16);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

Status flush_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const FileDescriptor fd(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || fsync(fd.get()) != 0) return fail_errno(folder);
  return {};
}

}  // namespace

IncomingFile::IncomingFile(IncomingFileSpec spec)
    : spec_(std::move(spec)),
      part_(part_path(spec_.local)),
      state_(spec_.size_bytes > spec_.piece_bytes ? spec_.state_folder : "",
             fmt::format("download\n{}\n{}", spec_.target, part_)),
      left_(
          std::max<std::size_t>(1, (spec_.size_bytes + spec_.piece_bytes - 1) / spec_.piece_bytes)),
      pieces_(left_) {}

IncomingFile::~IncomingFile() {
  const bool worthless = pieces_.size() == 1 || spec_.state_folder.empty();
  if (file_ && worthless) unlink(part_.c_str());
}

std::uint64_t IncomingFile::end_of(std::size_t piece) const {
  return std::min(spec_.size_bytes, begin_of(piece) + spec_.piece_bytes);
}

Status IncomingFile::open() {
  const MutexLock lock(mutex_);
  if (failed_) return fail(ErrorCode::cancelled, "another piece failed");
  if (opened_) return {};
  Status opened = open_locked();
  failed_ = !opened;
  opened_ = true;
  return opened;
}

Status IncomingFile::open_locked() {
  // Not through a link that somebody put there, and never a file that is not ours to write.
  file_.reset(::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file_) return fail_errno(part_);
  return restore();
}

Status IncomingFile::restore() {
  const boost::json::object saved = state_.load();
  const boost::json::value* etag = saved.if_contains("etag");
  const boost::json::value* pieces = saved.if_contains("pieces");
  const bool same = etag != nullptr && *etag == boost::json::value(spec_.etag) &&
                    pieces != nullptr && pieces->is_array() &&
                    pieces->get_array().size() == pieces_.size();
  if (!same) {
    if (ftruncate(file_.get(), 0) != 0) return fail_errno(part_);
    if (ftruncate(file_.get(), static_cast<off_t>(spec_.size_bytes)) != 0) return fail_errno(part_);
    return {};
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto expected = parse_hex(pieces->get_array()[i]);
    if (!expected || checksum_of(file_.get(), begin_of(i), end_of(i)) != expected) continue;
    pieces_[i] = expected;
    bytes_resumed_ += end_of(i) - begin_of(i);
  }
  return {};
}

void IncomingFile::remember() const {
  boost::json::array pieces;
  for (const auto& piece : pieces_) {
    pieces.push_back(piece ? boost::json::value(fmt::format("{:016x}", *piece))
                           : boost::json::value(nullptr));
  }
  state_.save({{"etag", spec_.etag}, {"pieces", std::move(pieces)}});
}

Result<bool> IncomingFile::fetch(const IncomingContext& context, std::size_t piece) {
  Status opened = open();
  if (!opened && opened.error().code() == ErrorCode::cancelled) return false;
  RETURN_IF_ERROR(opened);
  {
    const MutexLock lock(mutex_);
    if (pieces_[piece]) {
      context.meter.add_bytes(static_cast<std::int64_t>(end_of(piece) - begin_of(piece)));
      if (--left_ > 0) return false;
      RETURN_IF_ERROR(complete());
      return true;
    }
  }
  Result<std::uint64_t> checksum = receive(context, piece);
  const MutexLock lock(mutex_);
  if (!checksum) {
    failed_ = true;
    return tl::unexpected(std::move(checksum).error());
  }
  pieces_[piece] = *checksum;
  if (--left_ > 0) {
    remember();
    return false;
  }
  RETURN_IF_ERROR(complete());
  return true;
}

Result<std::uint64_t> IncomingFile::receive(const IncomingContext& context, std::size_t piece) {
  Xxh3 checksum;
  std::uint64_t at = begin_of(piece);
  for (int tried = 1;; ++tried) {
    Status received = receive_some(context, end_of(piece), at, checksum);
    if (received && at == end_of(piece)) return checksum.digest();
    if (received) {
      received = fail(ErrorCode::unavailable, fmt::format("{}: the answer ended early", part_));
    }
    const bool again = received.error().retryable() && tried < kAttemptsMax;
    if (!again) return tl::unexpected(std::move(received).error());
  }
}

// Asks for what is missing of a piece and writes what comes, also when it breaks off.
Status IncomingFile::receive_some(const IncomingContext& context, std::uint64_t end,
                                  std::uint64_t& at, Xxh3& checksum) {
  HttpRequest request{.target = spec_.target};
  const bool whole = at == 0 && end == spec_.size_bytes;
  if (!whole) {
    request.headers = {{"Range", fmt::format("bytes={}-{}", at, end - 1)},
                       {"If-Range", fmt::format("\"{}\"", spec_.etag)}};
  }
  const auto changed = [this] {
    return fail(ErrorCode::conflict, fmt::format("{} changed while it was fetched", spec_.local));
  };
  const CallHooks hooks{.sink = [&](std::span<const std::byte> bytes) -> Status {
                          if (bytes.size() > end - at) return changed();
                          RETURN_IF_ERROR(write_all_at(file_.get(), bytes, at, part_));
                          checksum.update(bytes);
                          at += bytes.size();
                          context.meter.add_bytes(static_cast<std::int64_t>(bytes.size()));
                          return {};
                        },
                        .cancelled = [&] { return context.crew.stopping(); }};
  ASSIGN_OR_RETURN(const HttpResponse response, context.client.perform(request, hooks));
  const bool as_asked = response.status == (whole ? 200 : 206);
  if (!as_asked || response.header("etag") != fmt::format("\"{}\"", spec_.etag)) return changed();
  return {};
}

Status IncomingFile::complete() {
  // The daemon's time, so that a later transfer sees that nothing changed.
  const auto since = spec_.modified.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const timespec modified{seconds.count(), std::chrono::nanoseconds(since - seconds).count()};
  const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, modified};
  if (futimens(file_.get(), times.data()) != 0) return fail_errno(part_);
  if (spec_.durable && fsync(file_.get()) != 0) return fail_errno(part_);
  if (rename(part_.c_str(), spec_.local.c_str()) != 0) return fail_errno(spec_.local);
  file_.reset();
  if (spec_.durable) RETURN_IF_ERROR(flush_folder(spec_.local));
  state_.forget();
  return {};
}

Status IncomingFile::verify(const IncomingContext& context) {
  const MutexLock lock(mutex_);
  const FileDescriptor file(::open(spec_.local.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno(spec_.local);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (checksum_of(file.get(), begin_of(i), end_of(i)) != pieces_[i]) {
      return fail(ErrorCode::corruption, "what was written differs from what came");
    }
    context.meter.add_bytes(static_cast<std::int64_t>(end_of(i) - begin_of(i)));
  }
  return {};
}

}  // namespace onggi::client
