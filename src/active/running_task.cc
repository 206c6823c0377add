#include "active/running_task.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/encoding.h"

namespace onggi::active {

namespace {

namespace json = boost::json;

constexpr std::uint64_t kLogBytesMax = 4 << 20;  // passed on per task
constexpr std::size_t kLastLines = 20;
constexpr std::size_t kHeldBytesMax = 16 << 20;
constexpr std::size_t kHeldFramesMax = 4096;
constexpr std::size_t kInlineCopyMax = 64 << 10;

struct Verdict {
  ErrorCode code = ErrorCode::internal;
  std::string detail;
};

std::string describe_status(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = sigabbrev_np(signal);
    return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
  }
  return fmt::format("exit status {}", WEXITSTATUS(wait_status));
}

// Why a worker ended, in words that say what to do.
Verdict verdict_of(const WorkerExit& exit, const TaskLimits& limits) {
  switch (exit.reason) {
    case ExitReason::cpu_time:
      return {ErrorCode::resource_exhausted,
              fmt::format("the task used up its {} CPU seconds (limits.cpu_seconds)",
                          limits.cpu_seconds)};
    case ExitReason::wall_time:
      return {ErrorCode::deadline_exceeded,
              fmt::format("the task ran longer than {} seconds (limits.wall_seconds)",
                          limits.wall_seconds)};
    case ExitReason::memory:
      return {ErrorCode::resource_exhausted,
              fmt::format("the worker was killed because it needed more memory than its share of "
                          "the task's {} bytes (limits.memory_bytes, shared by all workers)",
                          limits.memory_bytes)};
    case ExitReason::entry_failed:
      // That walls can be built at all was tried at start: this one's mounts or cwd do not fit.
      return {ErrorCode::invalid_argument,
              fmt::format("the sandbox could not be built as asked: {}", exit.text)};
    case ExitReason::profile_lost:
      return {ErrorCode::unavailable, fmt::format("the worker could not run: {}", exit.text)};
    case ExitReason::killed:
      return {ErrorCode::cancelled, "the worker was killed"};
    case ExitReason::itself:
      break;
  }
  return {ErrorCode::internal, fmt::format("the worker died ({}) before it had answered",
                                           describe_status(exit.wait_status))};
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 400;
    case ErrorCode::resource_exhausted:
      return 429;
    case ErrorCode::deadline_exceeded:
      return 504;
    case ErrorCode::unavailable:
      return 503;
    case ErrorCode::cancelled:
      return 499;
    default:
      return 500;
  }
}

bool is_result(FrameKind kind) {
  return kind == FrameKind::batch || kind == FrameKind::end || kind == FrameKind::error;
}

SharedBytes share(std::vector<std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

}  // namespace

RunningTask::RunningTask(TaskSetup setup)
    : setup_(std::move(setup)), states_(setup_.workers.size()) {}

Result<std::shared_ptr<RunningTask>> RunningTask::make(TaskSetup setup) {
  std::shared_ptr<RunningTask> task(new RunningTask(std::move(setup)));
  task->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!task->wake_) return fail_errno("eventfd");
  return task;
}

Status RunningTask::push(std::span<const std::byte> frames) {
  FrameParser parser({.body_bytes_max = kFrameJsonBytesMax});
  RETURN_IF_ERROR(
      parser.feed(frames, [&](Frame&& frame) { return push_command(std::move(frame)); }));
  if (!parser.at_boundary()) {
    return fail(ErrorCode::invalid_argument, "frame: the last one is incomplete");
  }
  return {};
}

Status RunningTask::push_command(Frame&& frame) {
  if (frame.head.kind != FrameKind::command) {
    return fail(ErrorCode::invalid_argument, "frame: only commands are taken here");
  }
  if (frame.head.channel >= setup_.workers.size()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("frame: no channel {}; the task has {} workers", frame.head.channel,
                            setup_.workers.size()));
  }
  if (frame.head.body_bytes > kFrameJsonBytesMax) {
    return fail(ErrorCode::too_large,
                fmt::format("frame: a command holds at most {} bytes", kFrameJsonBytesMax));
  }
  const bool last = (frame.head.flags & kFlagLast) != 0;
  const Expected expected{
      .channel = frame.head.channel, .sequence = frame.head.sequence, .last = last};
  SharedBytes bytes = share(encode_frame(frame.head, frame.body));
  const MutexLock lock(mutex_);
  if (closed_ || last_pushed_) return fail(ErrorCode::conflict, "the task is over");
  if (command_bytes_ + bytes->size() > setup_.command_bytes_max ||
      expected_.size() >= setup_.commands_max) {
    return fail(ErrorCode::resource_exhausted,
                "too many commands wait; send more once results have come");
  }
  last_pushed_ = last;
  command_bytes_ += bytes->size();
  commands_.push_back({.channel = frame.head.channel, .bytes = std::move(bytes)});
  expected_.push_back(expected);
  eventfd_write(wake_.get(), 1);
  return {};
}

void RunningTask::cancel_because(const std::string& reason) {
  {
    const MutexLock lock(mutex_);
    if (closed_ || !cancelled_.empty()) return;
    cancelled_ = reason;
    eventfd_write(wake_.get(), 1);
  }
  close_workers();
}

void RunningTask::worker_exited(const WorkerExit& exit) {
  const MutexLock lock(mutex_);
  exits_.push_back(exit);
  eventfd_write(wake_.get(), 1);
}

bool RunningTask::is_idle() const {
  const MutexLock lock(mutex_);
  return expected_.empty();
}

TaskSummary RunningTask::summary() const {
  const MutexLock lock(mutex_);
  return {.id = setup_.id,
          .tenant = setup_.tenant,
          .profile = setup_.spec.profile,
          .entry = setup_.spec.entry,
          .workers = setup_.workers.size(),
          .started = setup_.started,
          .output_bytes = output_bytes_};
}

void RunningTask::close_workers() {
  for (const TaskWorker& worker : setup_.workers) setup_.kill(worker.number);
}

Result<std::span<const std::byte>> RunningTask::next() {
  release_sent();
  if (!started_) {
    started_ = true;
    const json::object task{{"task", setup_.id.to_string()},
                            {"workers", setup_.workers.size()},
                            {"arena_bytes", setup_.spec.limits.arena_bytes}};
    add_text({.kind = FrameKind::task}, json::serialize(task));
  }
  while (pieces_.empty()) {
    if (over_) return std::span<const std::byte>();
    take_word();
    deliver_due();
    check_exits();
    if (pieces_.empty() && !over_) wait_and_move();
  }
  return pop_piece();
}

void RunningTask::release_sent() {
  if (sent_.release_worker) {
    std::array<std::byte, sizeof(std::uint64_t)> offset{};
    std::memcpy(offset.data(), &sent_.release_offset, sizeof(sent_.release_offset));
    WorkerLink& link = *setup_.workers[*sent_.release_worker].link;
    link.queue(share(encode_frame({.kind = FrameKind::release}, offset)));
    link.flush();
  }
  sent_ = {};
}

std::span<const std::byte> RunningTask::pop_piece() {
  sent_ = std::move(pieces_.front());
  pieces_.pop_front();
  const std::span<const std::byte> bytes = sent_.arena.empty() ? sent_.bytes : sent_.arena;
  setup_.bytes_out(bytes.size());
  return bytes;
}

void RunningTask::take_word() {
  std::string cancelled;
  {
    const MutexLock lock(mutex_);
    eventfd_t ignored = 0;
    eventfd_read(wake_.get(), &ignored);
    for (Queued& command : commands_) {
      setup_.workers[command.channel].link->queue(std::move(command.bytes));
    }
    commands_.clear();
    command_bytes_ = 0;
    for (WorkerExit& exit : exits_) {
      for (std::size_t i = 0; i < states_.size(); ++i) {
        if (setup_.workers[i].number != exit.worker) continue;
        states_[i].exit = std::move(exit);
        break;
      }
    }
    exits_.clear();
    if (!closed_) cancelled = cancelled_;
  }
  for (const TaskWorker& worker : setup_.workers) worker.link->flush();
  if (!cancelled.empty()) end_with_error(ErrorCode::cancelled, cancelled, std::nullopt);
}

void RunningTask::deliver_due() {
  while (!over_) {
    Expected due;
    {
      const MutexLock lock(mutex_);
      if (expected_.empty()) return;
      due = expected_.front();
      if (states_[due.channel].results.empty()) return;
      expected_.pop_front();
    }
    std::deque<WorkerFrame>& results = states_[due.channel].results;
    WorkerFrame frame = std::move(results.front());
    results.pop_front();
    states_[due.channel].held_bytes -= frame.body.size();
    if (frame.head.sequence != due.sequence) {
      end_with_error(ErrorCode::internal,
                     fmt::format("worker {} answered {} where {} was due", due.channel,
                                 frame.head.sequence, due.sequence),
                     due.channel);
      return;
    }
    add_result(due.channel, std::move(frame));
    if (due.last && !over_) end_well();
  }
}

void RunningTask::wait_and_move() {
  std::vector<pollfd> waiting = {{wake_.get(), POLLIN, 0}};
  struct Source {
    std::size_t worker = 0;
    std::size_t stream = 0;  // 0, 1: log pipes; 2: socket
  };
  std::vector<Source> sources = {{}};
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const WorkerLink& link = *setup_.workers[i].link;
    if (link.out() >= 0) waiting.push_back({link.out(), POLLIN, 0}), sources.push_back({i, 0});
    if (link.err() >= 0) waiting.push_back({link.err(), POLLIN, 0}), sources.push_back({i, 1});
    // A worker far ahead of its turn waits until its results are due.
    const bool full =
        states_[i].held_bytes > kHeldBytesMax || states_[i].results.size() > kHeldFramesMax;
    const int events = (full ? 0 : POLLIN) | (link.wants_to_write() ? POLLOUT : 0);
    if (link.hung_up() || events == 0) continue;
    waiting.push_back({link.socket(), static_cast<short>(events), 0});
    sources.push_back({i, 2});
  }
  if (poll(waiting.data(), waiting.size(), -1) < 0) return;
  for (std::size_t i = 1; i < waiting.size() && !over_; ++i) {
    if (waiting[i].revents == 0) continue;
    const auto [worker, stream] = sources[i];
    if (stream < 2) {
      read_logs(worker, stream);
      continue;
    }
    if ((waiting[i].revents & POLLOUT) != 0) setup_.workers[worker].link->flush();
    if ((waiting[i].revents & ~POLLOUT) != 0) read_worker(worker);
  }
}

void RunningTask::read_worker(std::size_t index) {
  const Status status = setup_.workers[index].link->read(
      [&](WorkerFrame&& frame) { return take_frame(index, std::move(frame)); });
  if (!status && !over_) {
    end_with_error(ErrorCode::internal,
                   fmt::format("worker {} broke the protocol: {}", index, status.error().message()),
                   index);
  }
}

Status RunningTask::take_frame(std::size_t index, WorkerFrame&& frame) {
  const FrameKind kind = frame.head.kind;
  const bool last = (frame.head.flags & kFlagLast) != 0;
  frame.head.channel = static_cast<std::uint16_t>(index);
  if (kind == FrameKind::ready) {
    setup_.worker_ready();
    return {};
  }
  if (over_) return {};
  if (kind == FrameKind::error && last) {
    // What the worker could not attribute to a command: the task cannot go on.
    add_result(index, std::move(frame));
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    over_ = true;
    close_workers();
    return {};
  }
  frame.head.flags &= static_cast<std::uint8_t>(~kFlagLast);
  if (!is_result(kind)) {
    if (kind == FrameKind::log) {
      log_bytes_ += frame.head.body_bytes;
      if (log_bytes_ > kLogBytesMax) {
        return frame.in_arena
                   ? fail(ErrorCode::resource_exhausted, "too many log bytes, from the arena")
                   : Status();
      }
    }
    add_result(index, std::move(frame));
    return {};
  }
  states_[index].held_bytes += frame.body.size();
  states_[index].results.push_back(std::move(frame));
  return {};
}

void RunningTask::read_logs(std::size_t index, std::size_t pipe) {
  const char* stream = pipe == 0 ? "stdout" : "stderr";
  setup_.workers[index].link->read_log(
      pipe, [&](std::string&& line) { add_log(index, stream, std::move(line)); });
}

void RunningTask::add_log(std::size_t index, const char* stream, std::string&& line) {
  if (!is_utf8(line)) {
    for (char& c : line) {
      if (static_cast<signed char>(c) < 0) c = '?';
    }
  }
  const std::uint64_t before = log_bytes_;
  log_bytes_ += line.size() + 1;
  std::deque<std::string>& last = states_[index].last_lines;
  if (last.size() == kLastLines) last.pop_front();
  std::string text = line;
  last.push_back(std::move(line));
  if (before > kLogBytesMax) return;
  if (log_bytes_ > kLogBytesMax) {
    stream = "onggi";
    text = fmt::format("more than {} bytes were printed; the rest is dropped", kLogBytesMax);
  }
  add_text({.kind = FrameKind::log, .channel = static_cast<std::uint16_t>(index)},
           json::serialize(json::object{{"stream", stream}, {"text", std::move(text)}}));
}

void RunningTask::check_exits() {
  for (std::size_t i = 0; i < states_.size() && !over_; ++i) {
    if (!states_[i].exit) continue;
    // It is dead: what it sent before lies in the socket and the pipes, complete.
    const WorkerLink& link = *setup_.workers[i].link;
    while (!link.hung_up() && !over_) read_worker(i);
    while (link.out() >= 0) read_logs(i, 0);
    while (link.err() >= 0) read_logs(i, 1);
    deliver_due();
    if (over_) return;
    const Verdict verdict = verdict_of(*states_[i].exit, setup_.spec.limits);
    end_with_error(verdict.code, verdict.detail, i);
  }
}

void RunningTask::add_text(FrameHead head, const std::string& text) {
  WorkerFrame frame;
  head.body_bytes = text.size();
  const auto bytes = as_bytes(text);
  head.checksum = xxh3(bytes);
  frame.head = head;
  frame.body.assign(bytes.begin(), bytes.end());
  add_result(0, std::move(frame));
}

void RunningTask::add_result(std::size_t index, WorkerFrame&& frame) {
  const std::uint64_t total = kFrameHeadBytes + frame.head.body_bytes;
  bool too_much = false;
  {
    const MutexLock lock(mutex_);
    output_bytes_ += total;
    too_much = output_bytes_ > setup_.spec.limits.output_bytes && !closed_;
  }
  if (too_much && frame.head.kind != FrameKind::task) {
    end_with_error(ErrorCode::resource_exhausted,
                   fmt::format("the task's results exceed {} bytes (limits.output_bytes)",
                               setup_.spec.limits.output_bytes),
                   std::nullopt);
    return;
  }
  const FrameHeadBytes head = encode_frame_head(frame.head);
  Piece piece;
  piece.bytes.resize(kFrameHeadBytes + (frame.in_arena ? 0 : frame.body.size()));
  std::memcpy(piece.bytes.data(), head.data(), head.size());
  if (!frame.in_arena) {
    if (!frame.body.empty()) {
      std::memcpy(piece.bytes.data() + head.size(), frame.body.data(), frame.body.size());
    }
    pieces_.push_back(std::move(piece));
    return;
  }
  // Small ones go with their heads, to spare a trip through the server.
  if (frame.arena.size() <= kInlineCopyMax) {
    piece.bytes.insert(piece.bytes.end(), frame.arena.begin(), frame.arena.end());
    piece.release_worker = index;
    piece.release_offset = frame.arena_offset;
    pieces_.push_back(std::move(piece));
    return;
  }
  pieces_.push_back(std::move(piece));
  pieces_.push_back({.bytes = {},
                     .arena = frame.arena,
                     .release_worker = index,
                     .release_offset = frame.arena_offset});
}

void RunningTask::end_well() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  add_text({.kind = FrameKind::end, .flags = kFlagLast}, "{}");
  over_ = true;
  close_workers();
}

void RunningTask::end_with_error(ErrorCode code, const std::string& detail,
                                 std::optional<std::size_t> index) {
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  json::object problem{{"type", "about:blank"},
                       {"title", "The task ended"},
                       {"status", status_of(code)},
                       {"code", std::string(to_string(code))},
                       {"detail", detail}};
  json::array lines;
  if (index) {
    problem["worker"] = *index;
    for (const std::string& line : states_[*index].last_lines) lines.emplace_back(line);
  }
  problem["log"] = std::move(lines);
  add_text({.kind = FrameKind::error, .flags = kFlagLast}, json::serialize(problem));
  over_ = true;
  close_workers();
}

}  // namespace onggi::active
