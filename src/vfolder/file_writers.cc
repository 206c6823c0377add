#include "vfolder/file_writers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace onggi::vfolder {
namespace {

// What a queued file costs beside its bytes.
constexpr std::size_t kJobBytes = 512;

}  // namespace

FileWriters::FileWriters(backend::Folder& folder, FileWritersOptions options)
    : folder_(folder), options_(options), queues_(std::max<std::size_t>(options.threads, 1)) {}

FileWriters::~FileWriters() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& queue : queues_) queue.clear();
  }
  changed_.notify_all();
  threads_.clear();  // joins
}

Status FileWriters::first_error() const {
  if (errors_.empty()) return {};
  return tl::unexpected(errors_.front());
}

Status FileWriters::write(backend::RelPath path, std::vector<std::byte> content) {
  const std::size_t cost = content.size() + kJobBytes;
  {
    const MutexLock lock(mutex_);
    if (threads_.empty()) {
      for (std::size_t i = 0; i < queues_.size(); ++i) {
        threads_.emplace_back([this, i] { run(i); });
      }
    }
    while (unfinished_ > 0 && queued_bytes_ + cost > options_.queued_bytes_max) {
      changed_.wait(mutex_);
    }
    RETURN_IF_ERROR(first_error());
    // The same path always goes to the same thread, so that the last one wins.
    auto& queue = queues_[std::hash<std::string>{}(path.text()) % queues_.size()];
    queue.push_back({.path = std::move(path), .content = std::move(content)});
    queued_bytes_ += cost;
    ++unfinished_;
  }
  changed_.notify_all();
  return {};
}

Status FileWriters::drain() {
  const MutexLock lock(mutex_);
  while (unfinished_ > 0) changed_.wait(mutex_);
  return first_error();
}

void FileWriters::run(std::size_t thread) {
  while (true) {
    Job job;
    {
      const MutexLock lock(mutex_);
      auto& queue = queues_[thread];
      while (queue.empty() && !stopping_) changed_.wait(mutex_);
      if (queue.empty()) return;
      job = std::move(queue.front());
      queue.pop_front();
    }
    auto written = write_now(job);
    {
      const MutexLock lock(mutex_);
      queued_bytes_ -= job.content.size() + kJobBytes;
      --unfinished_;
      if (!written && errors_.empty()) {
        errors_.push_back(std::move(written).error().with(fmt::format("'{}'", job.path.text())));
      }
    }
    changed_.notify_all();
  }
}

Status FileWriters::write_now(const Job& job) {
  ASSIGN_OR_RETURN(const auto staged, folder_.stage(Uuid::random(), true, job.content.size()));
  std::span<const std::byte> left = job.content;
  Status status;
  while (status && !left.empty()) {
    const auto space = staged->buffer();
    const std::size_t count = std::min(space.size(), left.size());
    std::memcpy(space.data(), left.data(), count);
    status = staged->commit_buffer(count);
    left = left.subspan(count);
  }
  if (status) {
    status =
        staged
            ->commit(job.path,
                     {.if_etag = {}, .if_absent = false, .create_parents = true, .durable = false})
            .map([](const backend::FileInfo&) {});
  }
  if (!status) {
    if (auto discarded = staged->discard(); !discarded) {
      LOG_WARN("staging left behind", {{"error", discarded.error().message()}});
    }
  }
  return status;
}

}  // namespace onggi::vfolder
