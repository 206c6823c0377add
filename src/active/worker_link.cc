#include "active/worker_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace onggi::active {

namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kLineBytesMax = 8 << 10;
constexpr std::size_t kVectorsMax = 64;
constexpr int kSocketBuffer = 1 << 20;

Result<FileDescriptor> make_arena(std::uint64_t bytes) {
  FileDescriptor arena(memfd_create("onggi-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!arena) return fail_errno("make arena");
  if (ftruncate(arena.get(), static_cast<off_t>(bytes)) != 0) return fail_errno("size arena");
  // Without the size a worker cannot make our reads fail with SIGBUS.
  if (fcntl(arena.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail_errno("seal arena");
  }
  return arena;
}

Status make_pipe(FileDescriptor& reader, FileDescriptor& writer) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("make pipe");
  reader.reset(ends[0]);
  writer.reset(ends[1]);
  if (fcntl(reader.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno("pipe flags");
  return {};
}

Status make_socket(FileDescriptor& ours, FileDescriptor& theirs) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno("make socket pair");
  }
  ours.reset(ends[0]);
  theirs.reset(ends[1]);
  setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof(kSocketBuffer));
  if (fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno("socket flags");
  return {};
}

bool may_come_from_worker(FrameKind kind) {
  switch (kind) {
    case FrameKind::batch:
    case FrameKind::progress:
    case FrameKind::log:
    case FrameKind::error:
    case FrameKind::end:
    case FrameKind::ready:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::unique_ptr<WorkerLink>> WorkerLink::make(std::uint64_t arena_bytes) {
  std::unique_ptr<WorkerLink> link(new WorkerLink());
  RETURN_IF_ERROR(make_socket(link->socket_, link->worker_ends_.socket));
  RETURN_IF_ERROR(make_pipe(link->pipes_[0], link->worker_ends_.out));
  RETURN_IF_ERROR(make_pipe(link->pipes_[1], link->worker_ends_.err));
  ASSIGN_OR_RETURN(link->worker_ends_.arena, make_arena(arena_bytes));
  void* memory =
      mmap(nullptr, arena_bytes, PROT_READ, MAP_SHARED, link->worker_ends_.arena.get(), 0);
  if (memory == MAP_FAILED) return fail_errno("map arena");
  link->arena_ = {static_cast<const std::byte*>(memory), arena_bytes};
  return link;
}

WorkerLink::~WorkerLink() {
  if (!arena_.empty()) munmap(const_cast<std::byte*>(arena_.data()), arena_.size());
}

void WorkerLink::flush() {
  while (wants_to_write()) {
    std::array<iovec, kVectorsMax> parts{};
    std::size_t count = 0;
    for (const SharedBytes& bytes : outgoing_) {
      if (count == parts.size()) break;
      const std::size_t skip = count == 0 ? written_ : 0;
      parts.at(count++) = {const_cast<std::byte*>(bytes->data() + skip), bytes->size() - skip};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) outgoing_.clear();
      return;
    }
    written_ += static_cast<std::size_t>(sent);
    while (!outgoing_.empty() && written_ >= outgoing_.front()->size()) {
      written_ -= outgoing_.front()->size();
      outgoing_.pop_front();
    }
  }
}

Result<WorkerFrame> WorkerLink::place(Frame&& frame) const {
  if (!may_come_from_worker(frame.head.kind)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("frame: kind {} from a worker", static_cast<int>(frame.head.kind)));
  }
  WorkerFrame result{.head = frame.head, .body = {}, .arena = {}};
  if ((frame.head.flags & kFlagInArena) == 0) {
    result.body = std::move(frame.body);
    return result;
  }
  std::array<std::uint64_t, 2> place{};
  std::memcpy(place.data(), frame.body.data(), sizeof(place));
  const auto [offset, length] = place;
  if (offset > arena_.size() || length > arena_.size() - offset || length > kFrameBodyBytesMax) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("frame: {} bytes at {} are outside the arena", length, offset));
  }
  result.head.flags &= static_cast<std::uint8_t>(~kFlagInArena);
  result.head.body_bytes = length;
  result.arena = arena_.subspan(offset, length);
  result.arena_offset = offset;
  result.in_arena = true;
  return result;
}

Status WorkerLink::read(const std::function<Status(WorkerFrame&&)>& sink) {
  std::array<std::byte, kReadBytes> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (count <= 0) {
    hung_up_ = true;
    return {};
  }
  return parser_.feed(std::span(buffer).first(static_cast<std::size_t>(count)),
                      [&](Frame&& frame) -> Status {
                        ASSIGN_OR_RETURN(WorkerFrame placed, place(std::move(frame)));
                        return sink(std::move(placed));
                      });
}

void WorkerLink::read_log(std::size_t pipe, const std::function<void(std::string&& line)>& sink) {
  std::array<char, kReadBytes> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  FileDescriptor& end = pipes_.at(pipe);
  std::string& partial = partial_lines_.at(pipe);
  const ssize_t count = ::read(end.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    if (!partial.empty()) sink(std::exchange(partial, {}));
    end.reset();
    return;
  }
  std::string_view rest(buffer.data(), static_cast<std::size_t>(count));
  for (std::size_t newline = rest.find('\n'); newline != std::string_view::npos;
       newline = rest.find('\n')) {
    partial += rest.substr(0, std::min(newline, kLineBytesMax - partial.size()));
    sink(std::exchange(partial, {}));
    rest.remove_prefix(newline + 1);
  }
  // The rest of an endless line is dropped.
  partial += rest.substr(0, kLineBytesMax - partial.size());
}

}  // namespace onggi::active
