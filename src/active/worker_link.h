#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "active/frame.h"
#include "active/sandbox/order.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace onggi::active {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

// What a worker sent: a head, and a body that came along or lies in its arena. The arena's bytes
// are the worker's to change at any time: they are passed on, never interpreted.
struct WorkerFrame {
  FrameHead head;  // body_bytes and checksum of the body wherever it lies, without kFlagInArena
  std::vector<std::byte> body;
  std::span<const std::byte> arena;
  std::uint64_t arena_offset = 0;
  bool in_arena = false;
};

// The daemon's ends of one worker's socket, log pipes and arena. Nothing here blocks. One thread at
// a time.
class WorkerLink {
 public:
  // Makes both ends; the worker's are taken with take_worker_ends().
  static Result<std::unique_ptr<WorkerLink>> make(std::uint64_t arena_bytes);
  ~WorkerLink();
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  WorkerDescriptors take_worker_ends() { return std::move(worker_ends_); }

  int socket() const { return socket_.get(); }
  int out() const { return pipes_[0].get(); }  // -1 once closed
  int err() const { return pipes_[1].get(); }

  void queue(SharedBytes bytes) { outgoing_.push_back(std::move(bytes)); }
  bool wants_to_write() const { return !outgoing_.empty() && !hung_up_; }
  // Writes what the socket takes. A worker that is gone is not an error here.
  void flush();

  // Reads what waits. An error when the worker breaks the protocol. After end of file hung_up().
  Status read(const std::function<Status(WorkerFrame&&)>& sink);
  bool hung_up() const { return hung_up_; }

  // Reads whole lines of pipe 0 (standard output) or 1 (standard error); at end of file also an
  // unfinished one, and closes.
  void read_log(std::size_t pipe, const std::function<void(std::string&& line)>& sink);

 private:
  WorkerLink() = default;
  Result<WorkerFrame> place(Frame&& frame) const;

  FileDescriptor socket_;
  std::array<FileDescriptor, 2> pipes_;
  std::array<std::string, 2> partial_lines_;
  WorkerDescriptors worker_ends_;
  std::span<const std::byte> arena_;
  std::deque<SharedBytes> outgoing_;
  std::size_t written_ = 0;  // of the first in outgoing_
  FrameParser parser_{{.body_bytes_max = kFrameJsonBytesMax, .internal_kinds = true}};
  bool hung_up_ = false;
};

}  // namespace onggi::active
