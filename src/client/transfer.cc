#include "client/transfer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/checksum.h"
#include "base/encoding.h"

namespace onggi::client {

namespace {

constexpr std::chrono::milliseconds kTick{100};

}  // namespace

void Meter::expect(std::uint64_t files, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  files_total_ += files;
  bytes_total_ += bytes;
}

void Meter::begin(const std::string& path) {
  const MutexLock lock(mutex_);
  current_ = path;
}

Progress Meter::progress() const {
  const MutexLock lock(mutex_);
  return {.bytes_done = static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes_done_)),
          .bytes_total = bytes_total_,
          .files_done = files_done_,
          .files_total = files_total_,
          .current = current_};
}

Status Crew::run(std::size_t count, const std::function<Status(std::size_t)>& work) {
  const std::size_t workers = std::min(std::max<std::size_t>(1, options_.jobs), count);
  next_ = 0;
  {
    const MutexLock lock(mutex_);
    finished_ = 0;
  }
  std::vector<std::jthread> threads;
  threads.reserve(workers);
  for (std::size_t i = 0; i < workers; ++i) {
    threads.emplace_back([this, count, &work] { work_through(count, work); });
  }
  watch(workers);
  threads.clear();  // joins
  if (options_.progress) options_.progress(meter_.progress());
  const MutexLock lock(mutex_);
  if (error_) return tl::unexpected(*error_);
  return {};
}

void Crew::watch(std::size_t workers) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (finished_ < workers) done_.wait_for(mutex_, kTick);
      if (finished_ == workers) return;
    }
    if (options_.progress) options_.progress(meter_.progress());
    if (!stopping_ && options_.cancelled && options_.cancelled()) {
      stopping_ = true;
      const MutexLock lock(mutex_);
      if (!error_) error_ = Error(ErrorCode::cancelled, "interrupted");
    }
  }
}

void Crew::work_through(std::size_t count, const std::function<Status(std::size_t)>& work) {
  while (!stopping_) {
    const std::size_t index = next_++;
    if (index >= count) break;
    Status worked = work(index);
    if (worked) continue;
    stopping_ = true;
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(worked).error();
  }
  const MutexLock lock(mutex_);
  ++finished_;
  done_.notify_all();
}

bool ends_transfer(ErrorCode code) {
  switch (code) {
    case ErrorCode::unauthenticated:
    case ErrorCode::permission_denied:
    case ErrorCode::storage_full:
    case ErrorCode::unavailable:
    case ErrorCode::cancelled:
      return true;
    default:
      return false;
  }
}

TransferState::TransferState(const std::string& folder, std::string_view identity) {
  if (folder.empty()) return;
  path_ = fmt::format("{}/{:016x}.json", folder, xxh3(as_bytes(identity)));
}

boost::json::object TransferState::load() const {
  if (path_.empty()) return {};
  const std::ifstream file(path_);
  std::ostringstream text;
  text << file.rdbuf();
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(text.str(), error);
  const boost::json::object* object = error ? nullptr : value.if_object();
  return object == nullptr ? boost::json::object() : *object;
}

void TransferState::save(const boost::json::object& state) const {
  if (path_.empty()) return;
  // Losing it costs the transfer's resumption, not the transfer: failures are not reported.
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const std::string fresh = path_ + ".new";
  {
    std::ofstream file(fresh, std::ios::trunc);
    file << boost::json::serialize(state);
  }
  std::filesystem::rename(fresh, path_, ignored);
}

void TransferState::forget() const {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace onggi::client
