#include "vfolder/archives.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/log.h"
#include "vfolder/file_writers.h"
#include "vfolder/tar.h"
#include "vfolder/upload_metadata.h"

namespace onggi::vfolder {
namespace {

constexpr std::size_t kBufferSize = std::size_t{1} << 20;
constexpr std::size_t kHeaderMax = std::size_t{16} << 10;  // of one member, whatever its path
constexpr std::uint64_t kSmallFile = 256 << 10;  // written by several threads up to this size
constexpr std::size_t kListPage = 10000;

class Extraction final : public ExtractSession, private TarHandler {
 public:
  Extraction(std::shared_ptr<backend::Folder> folder, backend::RelPath base,
             const TarLimits& limits, std::optional<std::uint64_t> expected,
             metrics::Counter& received)
      : folder_(std::move(folder)),
        base_(std::move(base)),
        reader_(*this, limits),
        writers_(*folder_),
        buffer_(kBufferSize),
        expected_(expected),
        received_(received) {}

  ~Extraction() override { abandon(); }

  Extraction(const Extraction&) = delete;
  Extraction& operator=(const Extraction&) = delete;
  Extraction(Extraction&&) = delete;
  Extraction& operator=(Extraction&&) = delete;

  std::span<std::byte> buffer() override { return buffer_; }

  Status commit(std::size_t bytes) override {
    CHECK(bytes <= buffer_.size());
    received_.add(bytes);
    if (expected_) hash_.update(std::span(buffer_).first(bytes));
    return reader_.feed(std::span(buffer_).first(bytes));
  }

  Result<Extracted> finish() override {
    RETURN_IF_ERROR(reader_.finish());
    RETURN_IF_ERROR(writers_.drain());
    if (expected_) {
      RETURN_IF_ERROR(verify_xxh3("archive", hash_.digest(), *expected_, "send it again"));
    }
    RETURN_IF_ERROR(folder_->sync());
    return extracted_;
  }

  void abandon() override {
    if (!staged_) return;
    if (auto discarded = staged_->discard(); !discarded) {
      LOG_WARN("staging left behind", {{"error", discarded.error().message()}});
    }
    staged_.reset();
  }

 private:
  Result<backend::RelPath> below_base(const backend::RelPath& path) const {
    if (base_.is_root()) return path;
    return backend::RelPath::parse(fmt::format("{}/{}", base_.text(), path.text()));
  }

  Status directory(const backend::RelPath& path) override {
    ASSIGN_OR_RETURN(const auto target, below_base(path));
    auto made = folder_->make_directory(target, true);
    if (!made && made.error().code() == ErrorCode::already_exists) {
      ASSIGN_OR_RETURN(const auto present, folder_->stat(target));
      if (present.kind == backend::FileKind::directory) made = {};
    }
    RETURN_IF_ERROR(made);
    ++extracted_.directories;
    return {};
  }

  Status begin_file(const backend::RelPath& path, std::uint64_t size) override {
    ASSIGN_OR_RETURN(target_, below_base(path));
    if (size <= kSmallFile) {
      small_.reserve(static_cast<std::size_t>(size));
      return {};
    }
    RETURN_IF_ERROR(writers_.drain());  // an older file of this path may be on its way
    ASSIGN_OR_RETURN(staged_, folder_->stage(Uuid::random(), true, size));
    return {};
  }

  Status data(std::span<const std::byte> bytes) override {
    extracted_.size_bytes += bytes.size();
    if (!staged_) {
      small_.insert(small_.end(), bytes.begin(), bytes.end());
      return {};
    }
    while (!bytes.empty()) {
      const auto space = staged_->buffer();
      const std::size_t count = std::min(space.size(), bytes.size());
      std::memcpy(space.data(), bytes.data(), count);
      RETURN_IF_ERROR(staged_->commit_buffer(count));
      bytes = bytes.subspan(count);
    }
    return {};
  }

  Status end_file() override {
    ++extracted_.files;
    if (!staged_) return writers_.write(target_, std::exchange(small_, {}));
    auto committed = staged_->commit(
        target_, {.if_etag = {}, .if_absent = false, .create_parents = true, .durable = false});
    if (!committed) {
      abandon();
      return tl::unexpected(std::move(committed).error().with(fmt::format("'{}'", target_.text())));
    }
    staged_.reset();
    return {};
  }

  std::shared_ptr<backend::Folder> folder_;  // outlives staged_
  const backend::RelPath base_;
  TarReader reader_;
  FileWriters writers_;
  std::vector<std::byte> buffer_;
  const std::optional<std::uint64_t> expected_;
  Xxh3 hash_;
  metrics::Counter& received_;
  backend::RelPath target_;
  std::unique_ptr<backend::StagedFile> staged_;  // of the file being read, when it is large
  std::vector<std::byte> small_;                 // its bytes, when it is small
  Extracted extracted_;
};

class TreeStream final : public ArchiveStream {
 public:
  TreeStream(std::shared_ptr<backend::Folder> folder, backend::RelPath base)
      : folder_(std::move(folder)), base_(std::move(base)), buffer_(kBufferSize) {}

  // Reads the first page, so that a missing directory is an answer and not a broken stream.
  Status prepare() { return read_page(); }

  Result<std::span<const std::byte>> next() override {
    used_ = 0;
    while (!ended_ && used_ + kHeaderMax <= buffer_.size()) {
      if (cancelled_.load(std::memory_order_relaxed)) {
        return fail(ErrorCode::cancelled, "the client left");
      }
      RETURN_IF_ERROR(file_ ? add_data() : add_member());
    }
    return std::span<const std::byte>(buffer_).first(used_);
  }

  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  Status read_page() {
    ASSIGN_OR_RETURN(
        page_, folder_->list(base_, {.after = after_, .limit = kListPage, .recursive = true}));
    position_ = 0;
    if (!page_.entries.empty()) after_ = page_.entries.back().path;
    return {};
  }

  void append(std::string_view text) {
    std::memcpy(buffer_.data() + used_, text.data(), text.size());
    used_ += text.size();
  }

  Status add_member() {
    if (position_ == page_.entries.size()) {
      if (!page_.more) {
        append(std::string(2 * kTarBlock, '\0'));
        ended_ = true;
        return {};
      }
      return read_page();
    }
    const backend::Entry& entry = page_.entries[position_++];
    if (entry.info.kind == backend::FileKind::directory) {
      add_header(entry.path, entry.info);
      return {};
    }
    if (entry.info.kind != backend::FileKind::file) return {};
    const std::string full =
        base_.is_root() ? entry.path : fmt::format("{}/{}", base_.text(), entry.path);
    ASSIGN_OR_RETURN(const auto path, backend::RelPath::parse(full));
    auto opened = folder_->open(path);
    // Gone since the page was read: as if it had gone before.
    if (!opened && opened.error().code() == ErrorCode::not_found) return {};
    if (!opened) return tl::unexpected(std::move(opened).error());
    file_ = *std::move(opened);
    offset_ = 0;
    add_header(entry.path, file_->info());
    if (file_->info().size_bytes == 0) file_.reset();
    return {};
  }

  void add_header(const std::string& path, const backend::FileInfo& info) {
    const bool directory = info.kind == backend::FileKind::directory;
    append(tar_header({.path = path,
                       .directory = directory,
                       .size = directory ? 0 : info.size_bytes,
                       .mode = info.mode,
                       .modified = info.modified}));
  }

  Status add_data() {
    const std::uint64_t size = file_->info().size_bytes;
    // The header's room is kept, so the padding below always fits.
    const std::size_t room = buffer_.size() - used_ - kTarBlock;
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(room, size - offset_));
    ASSIGN_OR_RETURN(const std::size_t count,
                     file_->read(offset_, std::span(buffer_).subspan(used_, wanted)));
    if (count == 0) {
      return fail(ErrorCode::conflict, "a file became shorter while it was archived");
    }
    used_ += count;
    offset_ += count;
    if (offset_ < size) return {};
    append(std::string((kTarBlock - size % kTarBlock) % kTarBlock, '\0'));
    file_.reset();
    return {};
  }

  std::shared_ptr<backend::Folder> folder_;  // outlives file_
  const backend::RelPath base_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  backend::ListPage page_;
  std::size_t position_ = 0;  // in page_
  std::string after_;
  std::unique_ptr<backend::ReadHandle> file_;  // being sent, from offset_
  std::uint64_t offset_ = 0;
  bool ended_ = false;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace

Archives::Archives(VFolders& vfolders, metrics::Registry& metrics, ArchivesOptions options)
    : vfolders_(vfolders),
      options_(options),
      received_(metrics.counter("onggi_received_bytes_total", "Bytes of files received",
                                {{"way", "archive"}})) {}

Result<std::unique_ptr<ExtractSession>> Archives::extract(const Principal& caller,
                                                          const Uuid& vfolder,
                                                          const backend::RelPath& path,
                                                          std::optional<std::uint64_t> xxh3) {
  ASSIGN_OR_RETURN(auto folder, vfolders_.open(caller, vfolder, Access::write));
  const TarLimits limits{.entries_max = options_.entries_max,
                         .file_bytes_max = options_.file_bytes_max,
                         .total_bytes_max = options_.total_bytes_max};
  return std::make_unique<Extraction>(std::move(folder), path, limits, xxh3, received_);
}

Result<std::unique_ptr<ArchiveStream>> Archives::archive(const Principal& caller,
                                                         const Uuid& vfolder,
                                                         const backend::RelPath& path) {
  ASSIGN_OR_RETURN(auto folder, vfolders_.open(caller, vfolder, Access::read));
  auto stream = std::make_unique<TreeStream>(std::move(folder), path);
  RETURN_IF_ERROR(stream->prepare());
  return stream;
}

}  // namespace onggi::vfolder
