#include "active/native_worker.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "active/frame.h"
#include "active/sandbox/order.h"
#include "base/checksum.h"
#include "base/encoding.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/write.h"

namespace onggi::active {

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t kChunk = 256 << 10;

Status send(std::span<const std::byte> frame) {
  return write_all(kWorkerSocketFd, frame, "worker: write");
}

Status send_text(const FrameHead& head, std::string_view text) {
  return send(encode_frame(head, as_bytes(text)));
}

// Hash and size of one file; what cannot be read is an error that names it.
Result<std::pair<std::uint64_t, std::uint64_t>> digest_file(const fs::path& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return fail_errno(path.string());
  Xxh3 hash;
  std::uint64_t size = 0;
  std::vector<std::byte> chunk(kChunk);
  for (ssize_t count = 0; (count = read(file.get(), chunk.data(), chunk.size())) != 0;) {
    if (count < 0) return fail_errno(path.string());
    hash.update(std::span(chunk).first(static_cast<std::size_t>(count)));
    size += static_cast<std::uint64_t>(count);
  }
  return std::pair(hash.digest(), size);
}

Result<std::string> digest_tree(const std::string& root) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->symlink_status(ignored).type() == fs::file_type::regular) files.push_back(it->path());
  }
  if (error) return fail(ErrorCode::not_found, fmt::format("{}: {}", root, error.message()));
  std::ranges::sort(files);
  Xxh3 all;
  std::uint64_t size_bytes = 0;
  for (const fs::path& path : files) {
    ASSIGN_OR_RETURN(const auto digest, digest_file(path));
    size_bytes += digest.second;
    all.update(as_bytes(fmt::format("{}\n{}\n{:016x}\n", path.lexically_relative(root).string(),
                                    digest.second, digest.first)));
  }
  return json::serialize(json::object{{"files", files.size()},
                                      {"size_bytes", size_bytes},
                                      {"xxh3", fmt::format("{:016x}", all.digest())}});
}

class NativeWorker {
 public:
  Status take(Frame&& frame);

 private:
  Status start(const Frame& frame);
  Status run_command(const Frame& frame);
  Result<std::string> path_of(const Frame& frame) const;

  std::string entry_;
  std::uint16_t index_ = 0;
};

Status NativeWorker::take(Frame&& frame) {
  switch (frame.head.kind) {
    case FrameKind::start:
      return start(frame);
    case FrameKind::command:
      return run_command(frame);
    default:
      return {};
  }
}

Status NativeWorker::start(const Frame& frame) {
  boost::system::error_code error;
  const json::value value = json::parse(frame.text(), error);
  const json::object* start = error ? nullptr : value.if_object();
  if (start == nullptr) return fail(ErrorCode::invalid_argument, "worker: start is not JSON");
  if (const auto* entry = start->if_contains("entry"); entry != nullptr && entry->is_string()) {
    entry_ = std::string(entry->get_string());
  }
  if (const auto* index = start->if_contains("index"); index != nullptr && index->is_int64()) {
    index_ = static_cast<std::uint16_t>(index->get_int64());
  }
  return {};
}

Result<std::string> NativeWorker::path_of(const Frame& frame) const {
  boost::system::error_code error;
  const json::value value = json::parse(frame.text(), error);
  const json::object* object = error ? nullptr : value.if_object();
  const json::value* path = object == nullptr ? nullptr : object->if_contains("path");
  if (path == nullptr || !path->is_string()) {
    return fail(ErrorCode::invalid_argument, R"(a tree_digest command is {"path": "…"})");
  }
  return std::string(path->get_string());
}

Status NativeWorker::run_command(const Frame& frame) {
  FrameHead head{.kind = FrameKind::batch, .channel = index_, .sequence = frame.head.sequence};
  if (entry_ == "echo") return send(encode_frame(head, frame.body));
  Result<std::string> answer =
      fail(ErrorCode::not_found, fmt::format("the native profile has no entry {}", entry_));
  if (entry_ == "tree_digest") {
    answer = path_of(frame);
    if (answer) answer = digest_tree(*answer);
  }
  if (answer) {
    head.kind = FrameKind::end;
    return send_text(head, *answer);
  }
  head.kind = FrameKind::error;
  const json::object problem{{"type", "about:blank"},
                             {"title", "The task failed"},
                             {"status", 422},
                             {"code", std::string(to_string(answer.error().code()))},
                             {"detail", answer.error().message()}};
  return send_text(head, json::serialize(problem));
}

Status serve() {
  RETURN_IF_ERROR(send(encode_frame({.kind = FrameKind::ready}, {})));
  NativeWorker worker;
  FrameParser parser({.internal_kinds = true});
  std::vector<std::byte> buffer(kChunk);
  while (true) {
    const ssize_t count = read(kWorkerSocketFd, buffer.data(), buffer.size());
    if (count == 0) return {};
    if (count < 0) return fail_errno("worker: read");
    RETURN_IF_ERROR(parser.feed(std::span(buffer).first(static_cast<std::size_t>(count)),
                                [&](Frame&& frame) { return worker.take(std::move(frame)); }));
  }
}

}  // namespace

int run_native_worker() {
  if (const Status status = serve(); !status) {
    const std::string text = status.error().message() + "\n";
    static_cast<void>(write(STDERR_FILENO, text.data(), text.size()));
    return 1;
  }
  return 0;
}

}  // namespace onggi::active
