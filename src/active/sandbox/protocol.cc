#include "active/sandbox/protocol.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>

namespace onggi::active {

namespace {

constexpr std::uint32_t kMagic = 0x4b425247;  // "GRBK"
constexpr std::size_t kTextBytesMax = 32 << 10;
constexpr std::size_t kTextsMax = 1024;

struct Head {
  std::uint32_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t descriptors = 0;
};

Error malformed(std::string_view what) {
  return {ErrorCode::invalid_argument, fmt::format("broker protocol: malformed {}", what)};
}

std::vector<FileDescriptor> received_descriptors(msghdr& message) {
  std::vector<FileDescriptor> descriptors;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + (i * sizeof(int)), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

Status send_message(int socket, MessageKind kind, std::string_view body,
                    std::span<const int> descriptors) {
  if (body.size() > kMessageBytesMax || descriptors.size() > kMessageDescriptorsMax) {
    return fail(ErrorCode::too_large, "broker protocol: message too large");
  }
  Head head{.kind = static_cast<std::uint16_t>(kind),
            .descriptors = static_cast<std::uint16_t>(descriptors.size())};
  std::array<iovec, 2> parts{iovec{&head, sizeof(head)},
                             iovec{const_cast<char*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMessageDescriptorsMax * sizeof(int))> control{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    return fail(ErrorCode::unavailable, fmt::format("broker protocol: send: {}", strerror(errno)));
  }
  return {};
}

Result<std::optional<Message>> receive_message(int socket) {
  Head head{};
  std::string body(kMessageBytesMax, '\0');
  std::array<iovec, 2> parts{iovec{&head, sizeof(head)}, iovec{body.data(), body.size()}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMessageDescriptorsMax * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return fail(ErrorCode::unavailable, "broker protocol: nothing waits");
  }
  if (received == 0 || (received < 0 && errno == ECONNRESET)) return std::nullopt;
  if (received < 0) return fail_errno("broker protocol: receive");
  Message result;
  result.descriptors = received_descriptors(message);
  const bool cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  if (cut || std::cmp_less(received, sizeof(head)) || head.magic != kMagic ||
      head.descriptors != result.descriptors.size()) {
    return tl::unexpected(malformed("message"));
  }
  result.kind = static_cast<MessageKind>(head.kind);
  body.resize(static_cast<std::size_t>(received) - sizeof(head));
  result.body = std::move(body);
  return result;
}

FieldWriter& FieldWriter::number(std::uint64_t value) {
  std::array<char, sizeof(value)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(value));
  bytes_.append(bytes.data(), bytes.size());
  return *this;
}

FieldWriter& FieldWriter::text(std::string_view value) {
  const std::string_view kept = value.substr(0, kTextBytesMax);
  number(kept.size());
  bytes_.append(kept);
  return *this;
}

FieldWriter& FieldWriter::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const std::string& value : values) text(value);
  return *this;
}

std::string_view FieldReader::take(std::size_t count) {
  if (failed_ || count > rest_.size()) {
    failed_ = true;
    return {};
  }
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::uint64_t FieldReader::number() {
  const std::string_view bytes = take(sizeof(std::uint64_t));
  std::uint64_t value = 0;
  if (!failed_) std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::string FieldReader::text() {
  const std::uint64_t size = number();
  if (size > kTextBytesMax) failed_ = true;
  return std::string(take(failed_ ? 0 : size));
}

std::vector<std::string> FieldReader::texts() {
  const std::uint64_t count = number();
  if (count > kTextsMax) failed_ = true;
  std::vector<std::string> values;
  for (std::uint64_t i = 0; i < count && !failed_; ++i) values.push_back(text());
  return values;
}

std::string encode(const StartProfile& value) {
  FieldWriter writer;
  writer.text(value.name).texts(value.argv).texts(value.environment).number(value.spares);
  return writer.bytes();
}

Result<StartProfile> decode_start_profile(std::string_view body) {
  FieldReader reader(body);
  StartProfile value;
  value.name = reader.text();
  value.argv = reader.texts();
  value.environment = reader.texts();
  value.spares = reader.number();
  if (!reader.ok() || value.name.empty()) return tl::unexpected(malformed("profile"));
  return value;
}

std::string encode(const WorkerOrder& value) {
  FieldWriter writer;
  writer.number(value.worker).text(value.profile).number(value.uid);
  const WorkerLimits& limits = value.limits;
  writer.number(limits.cpu_seconds).number(limits.memory_bytes).number(limits.wall_ms);
  writer.number(limits.processes).number(limits.tmp_bytes);
  writer.number(limits.memory_by_rlimit ? 1 : 0);
  writer.text(value.cwd).texts(value.mount_paths);
  return writer.bytes();
}

Result<WorkerOrder> decode_worker_order(std::string_view body) {
  FieldReader reader(body);
  WorkerOrder value;
  value.worker = reader.number();
  value.profile = reader.text();
  const std::uint64_t uid = reader.number();
  value.uid = static_cast<std::uint32_t>(uid);
  value.limits.cpu_seconds = reader.number();
  value.limits.memory_bytes = reader.number();
  value.limits.wall_ms = reader.number();
  value.limits.processes = reader.number();
  value.limits.tmp_bytes = reader.number();
  value.limits.memory_by_rlimit = reader.number() != 0;
  value.cwd = reader.text();
  value.mount_paths = reader.texts();
  if (!reader.ok() || uid >= 0xffffffff || value.mount_paths.size() > kMountsMax) {
    return tl::unexpected(malformed("order"));
  }
  return value;
}

std::string encode(const WorkerExit& value) {
  FieldWriter writer;
  writer.number(value.worker).number(static_cast<std::uint64_t>(value.reason));
  writer.number(static_cast<std::uint32_t>(value.wait_status)).number(value.cpu_us);
  writer.number(value.max_rss_bytes).text(value.text);
  return writer.bytes();
}

Result<WorkerExit> decode_worker_exit(std::string_view body) {
  FieldReader reader(body);
  WorkerExit value;
  value.worker = reader.number();
  const std::uint64_t reason = reader.number();
  value.reason = static_cast<ExitReason>(reason);
  value.wait_status = static_cast<int>(reader.number());
  value.cpu_us = reader.number();
  value.max_rss_bytes = reader.number();
  value.text = reader.text();
  if (!reader.ok() || reason > static_cast<std::uint64_t>(ExitReason::profile_lost)) {
    return tl::unexpected(malformed("exit"));
  }
  return value;
}

std::string encode(const ForkRequest& value) {
  FieldWriter writer;
  writer.number(value.child).texts(value.cgroup_procs);
  return writer.bytes();
}

Result<ForkRequest> decode_fork_request(std::string_view body) {
  FieldReader reader(body);
  ForkRequest value;
  value.child = reader.number();
  value.cgroup_procs = reader.texts();
  if (!reader.ok()) return tl::unexpected(malformed("fork request"));
  return value;
}

std::string encode(const ChildExit& value) {
  FieldWriter writer;
  writer.number(value.child).number(static_cast<std::uint32_t>(value.wait_status));
  writer.number(value.cpu_us).number(value.max_rss_bytes);
  return writer.bytes();
}

Result<ChildExit> decode_child_exit(std::string_view body) {
  FieldReader reader(body);
  ChildExit value;
  value.child = reader.number();
  value.wait_status = static_cast<int>(reader.number());
  value.cpu_us = reader.number();
  value.max_rss_bytes = reader.number();
  if (!reader.ok()) return tl::unexpected(malformed("child exit"));
  return value;
}

Result<WorkerDescriptors> take_descriptors(const WorkerOrder& order, Message& message) {
  constexpr std::size_t kFixed = 4;
  if (message.descriptors.size() != kFixed + order.mount_paths.size()) {
    return tl::unexpected(malformed("order: descriptors"));
  }
  WorkerDescriptors descriptors{.socket = std::move(message.descriptors[0]),
                                .out = std::move(message.descriptors[1]),
                                .err = std::move(message.descriptors[2]),
                                .arena = std::move(message.descriptors[3]),
                                .mounts = {}};
  for (std::size_t i = kFixed; i < message.descriptors.size(); ++i) {
    descriptors.mounts.push_back(std::move(message.descriptors[i]));
  }
  return descriptors;
}

Result<std::pair<FileDescriptor, FileDescriptor>> make_socket_pair() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return fail_errno("socketpair");
  }
  return std::pair(FileDescriptor(fds[0]), FileDescriptor(fds[1]));
}

}  // namespace onggi::active
