#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "active/sandbox/order.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace onggi::active {

// Messages between daemon, broker, zygotes and forked children, over seqpacket sockets. Each is one
// packet: u32 magic, u16 kind, u16 number of descriptors, then fields of fixed layout. All ends run
// the same program version; the checks are against confusion and against a child that went astray.
enum class MessageKind : std::uint16_t {
  // daemon to broker
  start_profile = 1,
  spawn = 2,  // also broker to forked child
  kill = 3,
  // broker to daemon
  hello = 10,
  profile_ready = 11,
  profile_failed = 12,
  exited = 13,
  // broker to zygote
  fork = 20,
  // zygote to broker
  zygote_ready = 21,
  zygote_failed = 22,
  forked = 23,
  child_exited = 24,
  // forked child to broker
  entry_failed = 25,
};

inline constexpr std::size_t kMessageBytesMax = 64 << 10;
inline constexpr std::size_t kMessageDescriptorsMax = 4 + kMountsMax;

struct Message {
  MessageKind kind = MessageKind::hello;
  std::string body;
  std::vector<FileDescriptor> descriptors;
};

// Sends one message; descriptors are borrowed. unavailable when the peer is gone or, on a socket
// that does not block, does not keep up.
Status send_message(int socket, MessageKind kind, std::string_view body,
                    std::span<const int> descriptors = {});
// The next message; none when the peer has closed. unavailable when nothing waits on a socket that
// does not block. Received descriptors are close-on-exec.
Result<std::optional<Message>> receive_message(int socket);

// Writes a message's fields, little endian.
class FieldWriter {
 public:
  FieldWriter& number(std::uint64_t value);
  FieldWriter& text(std::string_view value);
  FieldWriter& texts(const std::vector<std::string>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what FieldWriter wrote. After the first error everything read is empty; ask ok() at the
// end.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number();
  std::string text();
  std::vector<std::string> texts();
  // True when all could be read and nothing is left over.
  bool ok() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t count);

  std::string_view rest_;
  bool failed_ = false;
};

// Why a worker is no more.
enum class ExitReason : std::uint8_t {
  itself,        // ended or crashed by itself: see the wait status
  killed,        // the daemon asked for it
  cpu_time,      // over its CPU seconds
  wall_time,     // over its wall time
  memory,        // killed by the kernel at its memory limit
  entry_failed,  // could not get behind its walls: see the text
  profile_lost,  // its zygote could not start or died: see the text
};

struct StartProfile {
  std::string name;
  std::vector<std::string> argv;  // empty: native
  std::vector<std::string> environment;
  std::uint64_t spares = 2;
};

struct WorkerExit {
  std::uint64_t worker = 0;
  ExitReason reason = ExitReason::itself;
  int wait_status = 0;
  std::uint64_t cpu_us = 0;
  std::uint64_t max_rss_bytes = 0;
  std::string text;
};

// Asked of a zygote: fork a child that joins these cgroups and waits at the descriptor.
struct ForkRequest {
  std::uint64_t child = 0;
  std::vector<std::string> cgroup_procs;  // paths of cgroup.procs files
};

struct ChildExit {
  std::uint64_t child = 0;
  int wait_status = 0;
  std::uint64_t cpu_us = 0;
  std::uint64_t max_rss_bytes = 0;
};

std::string encode(const StartProfile& value);
std::string encode(const WorkerOrder& value);
std::string encode(const WorkerExit& value);
std::string encode(const ForkRequest& value);
std::string encode(const ChildExit& value);
Result<StartProfile> decode_start_profile(std::string_view body);
Result<WorkerOrder> decode_worker_order(std::string_view body);
Result<WorkerExit> decode_worker_exit(std::string_view body);
Result<ForkRequest> decode_fork_request(std::string_view body);
Result<ChildExit> decode_child_exit(std::string_view body);

// The order's descriptors out of a spawn message, when their number fits its mounts.
Result<WorkerDescriptors> take_descriptors(const WorkerOrder& order, Message& message);

// A connected pair of seqpacket sockets, close-on-exec.
Result<std::pair<FileDescriptor, FileDescriptor>> make_socket_pair();

}  // namespace onggi::active
