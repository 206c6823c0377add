#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/uuid.h"
#include "metrics/metrics.h"

namespace onggi::active {

// What a worker may use. A task's limits are shared out evenly among its workers, but for wall
// time, which all share.
struct TaskLimits {
  std::uint64_t cpu_seconds = 3600;
  std::uint64_t memory_bytes = 4ULL << 30;  // of all workers together, arenas included
  std::uint64_t wall_seconds = 24 * 3600;
  std::uint64_t output_bytes = 1ULL << 40;
  std::uint64_t processes = 64;              // per worker, threads included
  std::uint64_t arena_bytes = 256ULL << 20;  // per worker: bounds what is made ahead
};

// How the warm parent of one kind of worker is started.
struct ProfileOptions {
  std::string name;               // "torch", "numpy", "native"
  std::vector<std::string> argv;  // empty: the broker's own native entries
  std::map<std::string, std::string> environment;
  std::size_t spares = 2;  // workers forked ahead of need
};

struct TaskServiceOptions {
  std::string broker_program;  // path of onggi-broker
  std::vector<ProfileOptions> profiles;
  std::vector<std::string> prewarm;  // profiles started at once rather than at first use
  std::size_t workers_max = 16;      // on this node
  std::size_t workers_per_tenant_max = 16;
  std::size_t workers_per_task_max = 16;
  std::uint64_t payload_bytes_max = 256ULL << 20;
  std::uint64_t command_bytes_max = 64ULL << 20;  // waiting to be sent to workers, per task
  std::size_t commands_max = 1'000'000;           // without a result yet, per task
  TaskLimits limits_default;
  TaskLimits limits_max;
  std::uint32_t first_uid = 200'000;  // host uids of tenants' workers, when the daemon is root
  std::uint32_t uids = 65'536;
};

// The profiles that a Python with the onggi package offers: numpy, torch and (without Python)
// native. `python` is the interpreter, empty for native alone; `python_path` goes before its own.
std::vector<ProfileOptions> default_profiles(const std::string& python,
                                             const std::string& python_path = {});

struct ProfileState {
  std::string name;
  bool ready = false;                           // its warm parent runs
  std::string failure;                          // why it last could not start
  std::map<std::string, std::string> packages;  // name to version, once ready
};

// What this machine lets the sandbox do, in words for people. `ok` false: tasks are refused.
struct SandboxReport {
  struct Item {
    std::string name;  // "user namespaces", "landlock", …
    bool available = false;
    bool required = false;
    std::string detail;  // "ABI 7"; what its absence costs
  };
  bool ok = false;
  std::vector<Item> items;
};

struct TaskSummary {
  Uuid id;
  Uuid tenant;
  std::string profile;
  std::string entry;
  std::size_t workers = 0;
  UnixTime started;
  std::uint64_t output_bytes = 0;
};

// Gives a descriptor (O_PATH will do) of the vfolder's directory if the caller may read it, to be
// mounted read-only in the sandbox. Called by finish() on its thread.
using MountResolver = std::function<Result<FileDescriptor>(const Uuid& vfolder)>;

// A running task. Thread-safe, but for next(), which one thread calls. Shaped like http::Stream on
// purpose; the daemon adapts it.
class Task {
 public:
  virtual ~Task() = default;
  virtual const Uuid& id() const = 0;
  virtual const Uuid& tenant() const = 0;

  // The next bytes of the stream of frames, starting with `task`; blocks. Valid until the next
  // call. Empty: over. Never fails once started: what goes wrong is an error frame with the flag
  // last. Results come in the order of their commands.
  virtual Result<std::span<const std::byte>> next() = 0;
  // Frames of kind command, whole, in order. conflict when the task is over.
  virtual Status push(std::span<const std::byte> frames) = 0;
  // Kills the workers. A blocked next() returns. Idempotent.
  virtual void cancel() = 0;
};

// Receives a request's body: the frames spec, payload (any number; they are joined), command (any
// number). Used by one thread at a time.
class TaskIntake {
 public:
  virtual ~TaskIntake() = default;
  // Where the next bytes go, then how many came: http::Sink's shape.
  virtual std::span<std::byte> buffer() = 0;
  virtual Status commit(std::size_t bytes) = 0;
  // The body is complete: starts the task. not_found, invalid_argument, resource_exhausted (too
  // many workers), unavailable (no sandbox on this machine, or the broker is being restarted).
  virtual Result<std::shared_ptr<Task>> finish() = 0;
};

// Runs tenants' code in sandboxed workers. Owns the broker, a separate program that owns the warm
// parents and the workers; the daemon itself never runs or parses what a tenant made. Thread-safe.
class TaskService {
 public:
  // Starts the broker. Succeeds on machines without the means for a sandbox too: then tasks are
  // refused with the reason, and report() says what is missing. `metrics` and `clock` outlive it.
  static Result<std::unique_ptr<TaskService>> start(TaskServiceOptions options,
                                                    metrics::Registry& metrics, Clock& clock);
  virtual ~TaskService() = default;

  virtual std::unique_ptr<TaskIntake> open(const Uuid& tenant, MountResolver resolve_mount) = 0;

  // not_found for a task of another tenant too; without `tenant` (an administrator) any task.
  virtual Result<std::shared_ptr<Task>> find(const Uuid& id,
                                             const std::optional<Uuid>& tenant) const = 0;
  virtual std::vector<TaskSummary> list(const std::optional<Uuid>& tenant) const = 0;

  virtual std::vector<ProfileState> profiles() const = 0;
  virtual SandboxReport report() const = 0;
  virtual std::size_t workers_max() const = 0;

  // Refuses new tasks, waits for running ones, then kills the rest, the broker too. True when all
  // had ended in time.
  virtual bool stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace onggi::active
