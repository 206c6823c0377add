#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "active/frame.h"
#include "active/sandbox/protocol.h"
#include "active/task_service.h"
#include "active/task_spec.h"
#include "active/worker_link.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/uuid.h"

namespace onggi::active {

struct TaskWorker {
  std::uint64_t number = 0;  // the broker's name for it
  std::unique_ptr<WorkerLink> link;
};

struct TaskSetup {
  Uuid id;
  Uuid tenant;
  TaskSpec spec;
  UnixTime started;
  std::uint64_t command_bytes_max = 64ULL << 20;
  std::size_t commands_max = 1'000'000;
  std::vector<TaskWorker> workers;
  // Ends a worker; may be called again and for one that has ended.
  std::function<void(std::uint64_t worker)> kill;
  // A worker says that it is ready; called on the stream's thread.
  std::function<void()> worker_ready = [] {};
  std::function<void(std::uint64_t bytes)> bytes_out = [](std::uint64_t) {};
};

// One task: passes commands to its workers and their results on, in order. The stream's thread
// calls next() and does all the work there; the rest only leaves word for it.
class RunningTask final : public Task {
 public:
  static Result<std::shared_ptr<RunningTask>> make(TaskSetup setup);

  const Uuid& id() const override { return setup_.id; }
  const Uuid& tenant() const override { return setup_.tenant; }
  Result<std::span<const std::byte>> next() override;
  Status push(std::span<const std::byte> frames) override EXCLUDES_LOCK(mutex_);
  void cancel() override { cancel_because("the task was cancelled"); }
  void cancel_because(const std::string& reason) EXCLUDES_LOCK(mutex_);

  // Takes a command as it is; for those of the first body.
  Status push_command(Frame&& frame) EXCLUDES_LOCK(mutex_);
  // From the broker's thread.
  void worker_exited(const WorkerExit& exit) EXCLUDES_LOCK(mutex_);
  TaskSummary summary() const EXCLUDES_LOCK(mutex_);
  // Every command so far has its result.
  bool is_idle() const EXCLUDES_LOCK(mutex_);

 private:
  struct Expected {
    std::uint16_t channel = 0;
    std::uint32_t sequence = 0;
    bool last = false;
  };
  struct Piece {
    std::vector<std::byte> bytes;
    std::span<const std::byte> arena;
    std::optional<std::size_t> release_worker;  // whose arena is free again once this is sent
    std::uint64_t release_offset = 0;
  };
  struct WorkerState {
    std::deque<WorkerFrame> results;
    std::size_t held_bytes = 0;  // of results that came along with their heads
    std::deque<std::string> last_lines;
    std::optional<WorkerExit> exit;
  };

  explicit RunningTask(TaskSetup setup);

  void release_sent();
  std::span<const std::byte> pop_piece();
  void take_word() EXCLUDES_LOCK(mutex_);
  void deliver_due();
  void wait_and_move();
  void read_worker(std::size_t index);
  void read_logs(std::size_t index, std::size_t pipe);
  Status take_frame(std::size_t index, WorkerFrame&& frame);
  void check_exits();

  void add_text(FrameHead head, const std::string& text);
  void add_result(std::size_t index, WorkerFrame&& frame);
  void add_log(std::size_t index, const char* stream, std::string&& line);
  void end_well();
  void end_with_error(ErrorCode code, const std::string& detail, std::optional<std::size_t> index);
  void close_workers();

  const TaskSetup setup_;
  FileDescriptor wake_;

  // The stream's thread alone.
  bool started_ = false;
  bool over_ = false;
  std::deque<Piece> pieces_;
  Piece sent_;
  std::vector<WorkerState> states_;
  std::uint64_t log_bytes_ = 0;

  mutable Mutex mutex_;
  struct Queued {
    std::uint16_t channel = 0;
    SharedBytes bytes;
  };
  std::deque<Queued> commands_ GUARDED_BY(mutex_);
  std::uint64_t command_bytes_ GUARDED_BY(mutex_) = 0;
  std::deque<Expected> expected_ GUARDED_BY(mutex_);
  std::vector<WorkerExit> exits_ GUARDED_BY(mutex_);
  std::string cancelled_ GUARDED_BY(mutex_);  // why
  bool last_pushed_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::uint64_t output_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace onggi::active
