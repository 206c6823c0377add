#include "io/file_appender.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mutex.h"
#include "base/write.h"
#include "io/aligned_buffer.h"

namespace onggi::io {
namespace {

constexpr std::size_t kSmallBufferMin = 4096;
constexpr std::size_t kSmallBufferMax = 256 << 10;
// 4 MiB is where direct writes stop getting faster; three let the socket, the disk and the
// hand-over between them each hold one.
constexpr std::size_t kDirectBufferBytes = 4 << 20;
constexpr std::size_t kDirectBuffers = 3;

Status sync_data(int fd) {
  if (::fdatasync(fd) != 0) return fail_errno("make durable");
  return {};
}

class BufferedAppender final : public FileAppender {
 public:
  BufferedAppender(FileDescriptor file, std::uint64_t size, std::size_t buffer_bytes)
      : file_(std::move(file)), written_(size), buffer_(buffer_bytes) {}

  std::uint64_t size() const override { return written_ + filled_; }
  std::span<std::byte> buffer() override { return std::span(buffer_).subspan(filled_); }
  int descriptor() const override { return file_.get(); }

  Status advance(std::size_t bytes) override {
    CHECK(bytes <= buffer_.size() - filled_);
    filled_ += bytes;
    return filled_ == buffer_.size() ? write_out() : Status();
  }

  Status flush(bool durable) override {
    RETURN_IF_ERROR(write_out());
    return durable ? sync_data(file_.get()) : Status();
  }

  // The file, when everything has been written; the appender is then no more than a shell.
  FileDescriptor release() { return std::move(file_); }

 private:
  Status write_out() {
    RETURN_IF_ERROR(
        write_all_at(file_.get(), std::span(buffer_).first(filled_), written_, "write"));
    written_ += filled_;
    filled_ = 0;
    return {};
  }

  FileDescriptor file_;
  std::uint64_t written_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;
};

// The file is [0, base_) on its way through earlier buffers, then the current buffer's bytes. base_
// is always a multiple of the alignment: a flush writes an unaligned tail through the page cache
// and keeps it in the buffer, to be written again with its whole block.
class DirectAppender final : public FileAppender {
 public:
  DirectAppender(FileDescriptor file, FileDescriptor direct, std::uint64_t size)
      : file_(std::move(file)),
        direct_(std::move(direct)),
        base_(size / kDirectAlignment * kDirectAlignment),
        filled_(static_cast<std::size_t>(size - base_)) {}

  ~DirectAppender() override {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    if (writer_.joinable()) writer_.join();
  }
  DirectAppender(const DirectAppender&) = delete;
  DirectAppender& operator=(const DirectAppender&) = delete;
  DirectAppender(DirectAppender&&) = delete;
  DirectAppender& operator=(DirectAppender&&) = delete;

  Status start() {
    for (AlignedBuffer& buffer : buffers_) {
      ASSIGN_OR_RETURN(buffer, AlignedBuffer::allocate(kDirectBufferBytes));
    }
    const auto tail = buffers_[current_].bytes().first(filled_);
    const ssize_t count = ::pread(file_.get(), tail.data(), tail.size(), static_cast<off_t>(base_));
    if (count < 0) return fail_errno("read the tail");
    if (static_cast<std::size_t>(count) != tail.size()) {
      return fail(ErrorCode::internal, "read the tail: the file is shorter than it was");
    }
    try {
      writer_ = std::thread([this] { write_full_buffers(); });
    } catch (const std::system_error& error) {
      return fail(ErrorCode::resource_exhausted,
                  fmt::format("cannot start a writing thread: {}", error.what()));
    }
    ::pthread_setname_np(writer_.native_handle(), "file-writer");
    return {};
  }

  std::uint64_t size() const override { return base_ + filled_; }
  std::span<std::byte> buffer() override { return buffers_[current_].bytes().subspan(filled_); }
  int descriptor() const override { return file_.get(); }

  Status advance(std::size_t bytes) override {
    CHECK(bytes <= kDirectBufferBytes - filled_);
    filled_ += bytes;
    return filled_ == kDirectBufferBytes ? hand_over() : Status();
  }

  Status flush(bool durable) override {
    RETURN_IF_ERROR(wait_idle());
    const auto filled = buffers_[current_].bytes().first(filled_);
    const std::size_t aligned = filled_ / kDirectAlignment * kDirectAlignment;
    RETURN_IF_ERROR(write_direct(filled.first(aligned), base_));
    const auto tail = filled.subspan(aligned);
    RETURN_IF_ERROR(write_all_at(file_.get(), tail, base_ + aligned, "write"));
    std::memmove(filled.data(), tail.data(), tail.size());
    base_ += aligned;
    filled_ = tail.size();
    return durable ? sync_data(file_.get()) : Status();
  }

 private:
  struct Job {
    std::size_t buffer = 0;
    std::uint64_t offset = 0;
  };

  // Passes the full buffer to the writer and goes on with the next, once that is free.
  Status hand_over() EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    while (queued_ == kDirectBuffers - 1 && !error_) changed_.wait(mutex_);
    if (error_) return tl::unexpected(*error_);
    jobs_[(first_ + queued_) % kDirectBuffers] = {current_, base_};
    ++queued_;
    changed_.notify_all();
    current_ = (current_ + 1) % kDirectBuffers;
    base_ += kDirectBufferBytes;
    filled_ = 0;
    return {};
  }

  Status wait_idle() EXCLUDES_LOCK(mutex_) {
    const MutexLock lock(mutex_);
    while (queued_ > 0 && !error_) changed_.wait(mutex_);
    if (error_) return tl::unexpected(*error_);
    return {};
  }

  void write_full_buffers() EXCLUDES_LOCK(mutex_) {
    mutex_.lock();
    while (true) {
      while (queued_ == 0 && !closing_) changed_.wait(mutex_);
      if (closing_ || error_) break;  // closing without a flush: what is queued may be lost
      const Job job = jobs_[first_];
      mutex_.unlock();
      auto written = write_direct(buffers_[job.buffer].bytes(), job.offset);
      mutex_.lock();
      if (!written) error_ = std::move(written).error();
      first_ = (first_ + 1) % kDirectBuffers;
      --queued_;
      changed_.notify_all();
    }
    mutex_.unlock();
  }

  // Some file systems accept O_DIRECT and then refuse the write.
  Status write_direct(std::span<const std::byte> bytes, std::uint64_t offset) const {
    auto written = write_all_at(direct_.get(), bytes, offset, "write");
    if (!written && written.error().code() == ErrorCode::invalid_argument) {
      return write_all_at(file_.get(), bytes, offset, "write");
    }
    return written;
  }

  FileDescriptor file_;
  FileDescriptor direct_;
  std::array<AlignedBuffer, kDirectBuffers> buffers_;
  std::size_t current_ = 0;
  std::uint64_t base_;
  std::size_t filled_;

  Mutex mutex_;
  CondVar changed_;
  std::array<Job, kDirectBuffers> jobs_ GUARDED_BY(mutex_);
  std::size_t first_ GUARDED_BY(mutex_) = 0;
  std::size_t queued_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ GUARDED_BY(mutex_);
  std::thread writer_;
};

// The same file again, around the page cache; none where the file system cannot.
FileDescriptor reopen_direct(int fd) {
  return FileDescriptor(
      ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
}

// A stream of unknown length: through the page cache until it proves long, then around it. A long
// one left to the page cache is written at a third of the speed, most of it while flush() waits.
class GrowingAppender final : public FileAppender {
 public:
  GrowingAppender(std::unique_ptr<BufferedAppender> buffered, std::uint64_t direct_bytes_min)
      : direct_at_(buffered->size() + direct_bytes_min),
        buffered_(std::move(buffered)),
        current_(buffered_.get()) {}

  std::uint64_t size() const override { return current_->size(); }
  std::span<std::byte> buffer() override { return current_->buffer(); }
  Status flush(bool durable) override { return current_->flush(durable); }
  int descriptor() const override { return current_->descriptor(); }

  Status advance(std::size_t bytes) override {
    RETURN_IF_ERROR(current_->advance(bytes));
    return size() < direct_at_ ? Status() : go_direct();
  }

 private:
  Status go_direct() {
    direct_at_ = std::numeric_limits<std::uint64_t>::max();  // once, whatever comes of it
    FileDescriptor direct = reopen_direct(buffered_->descriptor());
    if (!direct) return {};
    RETURN_IF_ERROR(buffered_->flush(false));
    const std::uint64_t size = buffered_->size();
    direct_.emplace(buffered_->release(), std::move(direct), size);
    current_ = &*direct_;
    buffered_.reset();
    return direct_->start();
  }

  std::uint64_t direct_at_;
  std::unique_ptr<BufferedAppender> buffered_;
  std::optional<DirectAppender> direct_;
  FileAppender* current_;  // whichever of the two
};

}  // namespace

Result<std::unique_ptr<FileAppender>> FileAppender::open(FileDescriptor file, std::uint64_t size,
                                                         const FileAppenderOptions& options) {
  const std::uint64_t expected = options.size_hint > size ? options.size_hint - size : 0;
  if (expected >= options.direct_bytes_min) {
    // Reserving says at the start, not at the end, that the disk is too full, and keeps extents
    // long.
    if (::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size),
                    static_cast<off_t>(expected)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
      return fail_errno(fmt::format("reserve {} bytes", expected));
    }
    if (FileDescriptor direct = reopen_direct(file.get())) {
      auto appender = std::make_unique<DirectAppender>(std::move(file), std::move(direct), size);
      RETURN_IF_ERROR(appender->start());
      return appender;
    }
  }
  if (options.size_hint == 0) {
    auto buffered = std::make_unique<BufferedAppender>(std::move(file), size, kSmallBufferMax);
    return std::make_unique<GrowingAppender>(std::move(buffered), options.direct_bytes_min);
  }
  const auto buffer_bytes = std::clamp<std::uint64_t>(expected, kSmallBufferMin, kSmallBufferMax);
  return std::make_unique<BufferedAppender>(std::move(file), size, buffer_bytes);
}

}  // namespace onggi::io
