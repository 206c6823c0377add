#include "active/task_service.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "active/frame.h"
#include "active/running_task.h"
#include "active/sandbox/broker_client.h"
#include "active/task_spec.h"
#include "active/worker_link.h"
#include "base/encoding.h"
#include "base/log.h"
#include "base/mutex.h"

namespace onggi::active {

namespace {

namespace json = boost::json;

constexpr std::size_t kIntakeBuffer = 1 << 20;
constexpr std::uint64_t kTmpBytesMax = 1ULL << 30;
constexpr const char* kStops = "the daemon stops";

std::string_view name_of(ExitReason reason) {
  switch (reason) {
    case ExitReason::itself:
      return "itself";
    case ExitReason::killed:
      return "killed";
    case ExitReason::cpu_time:
      return "cpu_time";
    case ExitReason::wall_time:
      return "wall_time";
    case ExitReason::memory:
      return "memory";
    case ExitReason::entry_failed:
      return "entry_failed";
    case ExitReason::profile_lost:
      return "profile_lost";
  }
  return "unknown";
}

std::vector<double> start_bounds() {
  return {0.001, 0.002, 0.003, 0.005, 0.008, 0.012, 0.02, 0.05, 0.1, 0.5, 1, 5, 10};
}

struct Meters {
  explicit Meters(metrics::Registry& all)
      : registry(all),
        tasks(all.gauge("onggi_active_tasks", "Tasks that run now.")),
        workers(all.gauge("onggi_active_workers", "Sandboxed workers that run now.")),
        bytes_out(all.counter("onggi_active_output_bytes_total",
                              "Bytes of tasks' result streams handed to clients.")),
        broker_losses(all.counter("onggi_active_broker_losses_total",
                                  "Times that the broker died and was started again.")) {}

  metrics::Registry& registry;
  metrics::Gauge& tasks;
  metrics::Gauge& workers;
  metrics::Counter& bytes_out;
  metrics::Counter& broker_losses;
};

class Service;

class Intake final : public TaskIntake {
 public:
  Intake(Service& service, const Uuid& tenant, MountResolver resolve);
  std::span<std::byte> buffer() override { return buffer_; }
  Status commit(std::size_t bytes) override;
  Result<std::shared_ptr<Task>> finish() override;

 private:
  Status take(Frame&& frame);

  Service& service_;
  const Uuid tenant_;
  const MountResolver resolve_;
  std::vector<std::byte> buffer_;
  FrameParser parser_;
  std::optional<TaskSpec> spec_;
  std::vector<std::byte> payload_;
  std::vector<Frame> commands_;
  std::uint64_t command_bytes_ = 0;
};

class Service final : public TaskService {
 public:
  Service(TaskServiceOptions options, metrics::Registry& metrics, Clock& clock)
      : options_(std::move(options)), meters_(metrics), clock_(clock) {}
  ~Service() override;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void open();

  std::unique_ptr<TaskIntake> open(const Uuid& tenant, MountResolver resolve_mount) override {
    return std::make_unique<Intake>(*this, tenant, std::move(resolve_mount));
  }
  Result<std::shared_ptr<Task>> find(const Uuid& id,
                                     const std::optional<Uuid>& tenant) const override;
  std::vector<TaskSummary> list(const std::optional<Uuid>& tenant) const override;
  std::vector<ProfileState> profiles() const override;
  SandboxReport report() const override;
  std::size_t workers_max() const override { return options_.workers_max; }
  bool stop(std::chrono::milliseconds grace) override;

  const TaskServiceOptions& options() const { return options_; }
  Result<std::shared_ptr<RunningTask>> start(const Uuid& tenant, TaskSpec spec,
                                             std::vector<std::byte> payload,
                                             const MountResolver& resolve);

 private:
  struct Worker {
    std::weak_ptr<RunningTask> task;  // the stream owns it
    Uuid task_id;
    Uuid tenant;
    SteadyTime ordered;
  };
  struct Entry {
    std::shared_ptr<RunningTask> task;  // kept until all workers have ended
    std::size_t workers = 0;
  };

  std::vector<std::shared_ptr<RunningTask>> tasks_now() const EXCLUDES_LOCK(mutex_);
  Status need_profile(const std::string& name) EXCLUDES_LOCK(mutex_);
  Result<std::uint32_t> uid_of(const Uuid& tenant) EXCLUDES_LOCK(mutex_);
  Status reserve(const Uuid& tenant, std::size_t workers) EXCLUDES_LOCK(mutex_);
  void unreserve(const Uuid& tenant, std::size_t workers) EXCLUDES_LOCK(mutex_);
  Result<std::shared_ptr<RunningTask>> launch(const Uuid& tenant, TaskSpec spec,
                                              std::vector<std::byte> payload,
                                              std::vector<FileDescriptor> mounts);
  WorkerOrder order_for(const TaskSpec& spec, std::uint64_t number, std::uint32_t uid) const;
  Status send_orders(RunningTask& task, const TaskSpec& spec,
                     const std::vector<std::uint64_t>& numbers, std::vector<WorkerDescriptors> ends,
                     std::vector<FileDescriptor> mounts);

  void on_hello(const SandboxAbilities& abilities) EXCLUDES_LOCK(mutex_);
  void on_profile_ready(const std::string& name, const std::string& information)
      EXCLUDES_LOCK(mutex_);
  void on_profile_failed(const std::string& name, const std::string& text) EXCLUDES_LOCK(mutex_);
  void on_exited(const WorkerExit& exit) EXCLUDES_LOCK(mutex_);
  void on_lost() EXCLUDES_LOCK(mutex_);
  void kill(std::uint64_t worker) EXCLUDES_LOCK(mutex_);
  std::shared_ptr<BrokerClient> broker() const EXCLUDES_LOCK(mutex_);

  const TaskServiceOptions options_;
  Meters meters_;
  Clock& clock_;

  mutable Mutex mutex_;
  CondVar ended_;
  std::map<std::string, ProfileState> profiles_ GUARDED_BY(mutex_);
  std::set<std::string> starting_ GUARDED_BY(mutex_);
  SandboxAbilities abilities_ GUARDED_BY(mutex_);
  std::string broker_failure_ GUARDED_BY(mutex_) = "the broker is starting";
  std::map<Uuid, std::uint32_t> uids_ GUARDED_BY(mutex_);
  std::map<Uuid, std::size_t> tenant_workers_ GUARDED_BY(mutex_);
  std::size_t workers_ GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Worker> by_number_ GUARDED_BY(mutex_);
  std::map<Uuid, Entry> tasks_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> next_worker_{1};
  // Last: its thread uses all the above. Shared with calls that run while the service stops.
  std::shared_ptr<BrokerClient> broker_ GUARDED_BY(mutex_);
};

// --- intake

Intake::Intake(Service& service, const Uuid& tenant, MountResolver resolve)
    : service_(service),
      tenant_(tenant),
      resolve_(std::move(resolve)),
      buffer_(kIntakeBuffer),
      parser_({.body_bytes_max = service.options().payload_bytes_max}) {}

Status Intake::commit(std::size_t bytes) {
  return parser_.feed(std::span(buffer_).first(std::min(bytes, buffer_.size())),
                      [this](Frame&& frame) { return take(std::move(frame)); });
}

Status Intake::take(Frame&& frame) {
  const TaskServiceOptions& options = service_.options();
  if (!spec_) {
    if (frame.head.kind != FrameKind::spec) {
      return fail(ErrorCode::invalid_argument, "a task begins with a frame of kind spec");
    }
    ASSIGN_OR_RETURN(spec_,
                     parse_task_spec(frame.text(), {.workers_max = options.workers_per_task_max,
                                                    .limits_default = options.limits_default,
                                                    .limits_max = options.limits_max}));
    return {};
  }
  switch (frame.head.kind) {
    case FrameKind::payload:
      if (payload_.size() + frame.body.size() > options.payload_bytes_max) {
        return fail(ErrorCode::too_large,
                    fmt::format("the payload is over {} bytes; put data into a vfolder, not into "
                                "the data set object",
                                options.payload_bytes_max));
      }
      if (payload_.empty()) {
        payload_ = std::move(frame.body);
      } else {
        payload_.insert(payload_.end(), frame.body.begin(), frame.body.end());
      }
      return {};
    case FrameKind::command:
      command_bytes_ += frame.body.size();
      if (command_bytes_ > options.command_bytes_max || commands_.size() >= options.commands_max) {
        return fail(ErrorCode::too_large, "too many commands in one body");
      }
      commands_.push_back(std::move(frame));
      return {};
    default:
      return fail(ErrorCode::invalid_argument,
                  "after the spec only payload and command frames may come");
  }
}

Result<std::shared_ptr<Task>> Intake::finish() {
  if (!spec_ || !parser_.at_boundary()) {
    return fail(ErrorCode::invalid_argument, "the body ends within a frame or holds no spec");
  }
  ASSIGN_OR_RETURN(auto task,
                   service_.start(tenant_, std::move(*spec_), std::move(payload_), resolve_));
  for (Frame& command : commands_) {
    if (auto status = task->push_command(std::move(command)); !status) {
      task->cancel();
      return tl::unexpected(std::move(status).error());
    }
  }
  return std::shared_ptr<Task>(std::move(task));
}

// --- life

void Service::open() {
  auto client = BrokerClient::start(
      options_.broker_program,
      {.hello = [this](const SandboxAbilities& abilities) { on_hello(abilities); },
       .profile_ready = [this](const std::string& name,
                               const std::string& text) { on_profile_ready(name, text); },
       .profile_failed = [this](const std::string& name,
                                const std::string& text) { on_profile_failed(name, text); },
       .exited = [this](const WorkerExit& exit) { on_exited(exit); },
       .lost = [this] { on_lost(); }});
  {
    const MutexLock lock(mutex_);
    for (const ProfileOptions& profile : options_.profiles)
      profiles_[profile.name].name = profile.name;
    if (!client) {
      broker_failure_ = client.error().message();
      LOG_WARN("tasks are off", {{"reason", broker_failure_}});
      return;
    }
    broker_ = std::move(*client);
  }
  for (const std::string& name : options_.prewarm) {
    if (const Status status = need_profile(name); !status) {
      LOG_WARN("profile not started", {{"profile", name}, {"reason", status.error().message()}});
    }
  }
}

Service::~Service() {
  static_cast<void>(stop(std::chrono::milliseconds(0)));
}

std::vector<std::shared_ptr<RunningTask>> Service::tasks_now() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<RunningTask>> tasks;
  tasks.reserve(tasks_.size());
  for (const auto& [id, entry] : tasks_) tasks.push_back(entry.task);
  return tasks;
}

bool Service::stop(std::chrono::milliseconds grace) {
  constexpr std::chrono::milliseconds kLook{200};
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  const SteadyTime deadline = clock_.steady_now() + grace;
  auto left = tasks_now();
  while (!left.empty() && clock_.steady_now() < deadline) {
    // A client that asks for nothing now is told at once, and goes on without us.
    for (const auto& task : left) {
      if (task->is_idle()) task->cancel_because(kStops);
    }
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock_.steady_now());
    {
      const MutexLock lock(mutex_);
      if (!tasks_.empty()) ended_.wait_for(mutex_, std::min(rest, kLook));
    }
    left = tasks_now();
  }
  for (const auto& task : left) task->cancel_because(kStops);
  std::shared_ptr<BrokerClient> client;
  {
    const MutexLock lock(mutex_);
    client = std::move(broker_);
  }
  client.reset();
  on_lost();  // whoever was still there is dead with the broker
  return left.empty();
}

// --- starting

Status Service::need_profile(const std::string& name) {
  const auto profile = std::ranges::find(options_.profiles, name, &ProfileOptions::name);
  if (profile == options_.profiles.end()) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "this node has no profile {}; it has: {}", name,
            fmt::join(options_.profiles | std::views::transform(&ProfileOptions::name), ", ")));
  }
  {
    const MutexLock lock(mutex_);
    if (stopping_) return fail(ErrorCode::unavailable, kStops);
    if (!broker_failure_.empty()) return fail(ErrorCode::unavailable, broker_failure_);
    if (!abilities_.failure.empty()) {
      return fail(ErrorCode::unavailable,
                  fmt::format("this machine cannot build the sandbox: {}", abilities_.failure));
    }
    if (profiles_[name].ready || !starting_.insert(name).second) return {};
  }
  StartProfile start{
      .name = name, .argv = profile->argv, .environment = {}, .spares = profile->spares};
  for (const auto& [key, value] : profile->environment) {
    start.environment.push_back(fmt::format("{}={}", key, value));
  }
  const auto client = broker();
  return client ? client->start_profile(start) : fail(ErrorCode::unavailable, kStops);
}

Result<std::uint32_t> Service::uid_of(const Uuid& tenant) {
  const MutexLock lock(mutex_);
  if (!abilities_.privileged) return 0;
  const auto found = uids_.find(tenant);
  if (found != uids_.end()) return found->second;
  if (uids_.size() >= options_.uids) {
    return fail(ErrorCode::resource_exhausted, "no uid is left for another tenant's workers");
  }
  const auto uid = static_cast<std::uint32_t>(options_.first_uid + uids_.size());
  uids_[tenant] = uid;
  return uid;
}

Status Service::reserve(const Uuid& tenant, std::size_t workers) {
  const MutexLock lock(mutex_);
  if (stopping_) return fail(ErrorCode::unavailable, kStops);
  if (workers_ + workers > options_.workers_max) {
    return fail(
        ErrorCode::resource_exhausted,
        fmt::format("all {} workers of this node are taken; try again once a task has ended, "
                    "or ask for fewer",
                    options_.workers_max));
  }
  std::size_t& own = tenant_workers_[tenant];
  if (own + workers > options_.workers_per_tenant_max) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("your tasks use {} workers and may use {}; end a task or ask for fewer",
                            own, options_.workers_per_tenant_max));
  }
  own += workers;
  workers_ += workers;
  meters_.workers.add(static_cast<std::int64_t>(workers));
  return {};
}

void Service::unreserve(const Uuid& tenant, std::size_t workers) {
  const MutexLock lock(mutex_);
  workers_ -= workers;
  meters_.workers.add(-static_cast<std::int64_t>(workers));
  const auto own = tenant_workers_.find(tenant);
  if ((own->second -= workers) == 0) tenant_workers_.erase(own);
}

Result<std::shared_ptr<RunningTask>> Service::start(const Uuid& tenant, TaskSpec spec,
                                                    std::vector<std::byte> payload,
                                                    const MountResolver& resolve) {
  RETURN_IF_ERROR(need_profile(spec.profile));
  std::vector<FileDescriptor> mounts;
  for (const TaskMount& mount : spec.mounts) {
    ASSIGN_OR_RETURN(FileDescriptor directory, resolve(mount.vfolder));
    mounts.push_back(std::move(directory));
  }
  const std::size_t workers = spec.workers;
  RETURN_IF_ERROR(reserve(tenant, workers));
  auto task = launch(tenant, std::move(spec), std::move(payload), std::move(mounts));
  if (!task) unreserve(tenant, workers);
  return task;
}

WorkerOrder Service::order_for(const TaskSpec& spec, std::uint64_t number,
                               std::uint32_t uid) const {
  const TaskLimits& limits = spec.limits;
  const std::uint64_t memory = std::max<std::uint64_t>(limits.memory_bytes / spec.workers, 1 << 20);
  WorkerOrder order;
  order.worker = number;
  order.profile = spec.profile;
  order.uid = uid;
  order.limits = {.cpu_seconds = (limits.cpu_seconds + spec.workers - 1) / spec.workers,
                  .memory_bytes = memory,
                  .wall_ms = limits.wall_seconds * 1000,
                  .processes = limits.processes,
                  .tmp_bytes = std::min(memory / 4, kTmpBytesMax)};
  order.cwd = spec.cwd;
  for (const TaskMount& mount : spec.mounts) order.mount_paths.push_back(mount.path);
  return order;
}

Result<std::shared_ptr<RunningTask>> Service::launch(const Uuid& tenant, TaskSpec spec,
                                                     std::vector<std::byte> payload,
                                                     std::vector<FileDescriptor> mounts) {
  // An arena is part of the worker's memory; it gets at most half.
  spec.limits.arena_bytes =
      std::min(spec.limits.arena_bytes, spec.limits.memory_bytes / spec.workers / 2) & ~4095ULL;
  if (spec.limits.arena_bytes == 0) {
    return fail(ErrorCode::invalid_argument, "spec: limits leave no memory for results");
  }
  TaskSetup setup{.id = Uuid::random(),
                  .tenant = tenant,
                  .spec = spec,
                  .started = clock_.now(),
                  .command_bytes_max = options_.command_bytes_max,
                  .commands_max = options_.commands_max,
                  .workers = {},
                  .kill = [this](std::uint64_t worker) { kill(worker); },
                  .worker_ready = [] {},
                  .bytes_out = [this](std::uint64_t bytes) { meters_.bytes_out.add(bytes); }};
  const SteadyTime ordered = clock_.steady_now();
  metrics::Histogram& starts = meters_.registry.histogram(
      "onggi_active_worker_start_seconds", "From the order to the worker's word that it is ready.",
      {{"profile", spec.profile}}, start_bounds());
  setup.worker_ready = [this, ordered, &starts] {
    starts.observe(std::chrono::duration<double>(clock_.steady_now() - ordered).count());
  };
  std::vector<WorkerDescriptors> ends;
  std::vector<std::uint64_t> numbers;
  auto shared_payload = std::make_shared<const std::vector<std::byte>>(
      payload.empty() ? std::vector<std::byte>()
                      : encode_frame({.kind = FrameKind::payload}, payload));
  for (std::size_t i = 0; i < spec.workers; ++i) {
    ASSIGN_OR_RETURN(auto link, WorkerLink::make(spec.limits.arena_bytes));
    ends.push_back(link->take_worker_ends());
    numbers.push_back(next_worker_++);
    std::string text = spec.start_fields;
    text.pop_back();
    text += fmt::format(R"(,"index":{},"payload_bytes":{}}})", i, payload.size());
    link->queue(std::make_shared<const std::vector<std::byte>>(
        encode_frame({.kind = FrameKind::start}, as_bytes(text))));
    if (!payload.empty()) link->queue(shared_payload);
    setup.workers.push_back({.number = numbers.back(), .link = std::move(link)});
  }
  const Uuid id = setup.id;
  ASSIGN_OR_RETURN(auto task, RunningTask::make(std::move(setup)));
  {
    const MutexLock lock(mutex_);
    for (const std::uint64_t number : numbers) {
      by_number_[number] = {.task = task, .task_id = id, .tenant = tenant, .ordered = ordered};
    }
    tasks_[id] = {.task = task, .workers = numbers.size()};
    meters_.tasks.set(static_cast<std::int64_t>(tasks_.size()));
  }
  if (auto status = send_orders(*task, spec, numbers, std::move(ends), std::move(mounts));
      !status) {
    // Those that were ordered end as cancelled; those that were not never report.
    LOG_WARN("task not started", {{"reason", status.error().message()}});
  }
  return task;
}

Status Service::send_orders(RunningTask& task, const TaskSpec& spec,
                            const std::vector<std::uint64_t>& numbers,
                            std::vector<WorkerDescriptors> ends,
                            std::vector<FileDescriptor> mounts) {
  Status status;
  const auto client = broker();
  if (!client) status = fail(ErrorCode::unavailable, kStops);
  auto uid = uid_of(task.tenant());
  if (!uid) status = tl::unexpected(uid.error());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (status) {
      ends[i].mounts = std::move(mounts);
      status = client->spawn(order_for(spec, numbers[i], *uid), ends[i]);
      mounts = std::move(ends[i].mounts);
    }
    if (!status) {
      on_exited({.worker = numbers[i],
                 .reason = ExitReason::profile_lost,
                 .text = status.error().message()});
    }
  }
  return status;
}

void Service::kill(std::uint64_t worker) {
  std::shared_ptr<BrokerClient> client;
  {
    const MutexLock lock(mutex_);
    if (by_number_.contains(worker)) client = broker_;
  }
  if (client) static_cast<void>(client->kill(worker));
}

std::shared_ptr<BrokerClient> Service::broker() const {
  const MutexLock lock(mutex_);
  return broker_;
}

// --- events

void Service::on_hello(const SandboxAbilities& abilities) {
  const MutexLock lock(mutex_);
  abilities_ = abilities;
  broker_failure_.clear();
  if (!abilities.failure.empty()) {
    LOG_WARN("tasks are off: no sandbox", {{"reason", abilities.failure}});
  }
}

void Service::on_profile_ready(const std::string& name, const std::string& information) {
  boost::system::error_code error;
  const json::value value = json::parse(information, error);
  const MutexLock lock(mutex_);
  starting_.erase(name);
  ProfileState& state = profiles_[name];
  state.ready = true;
  state.failure.clear();
  state.packages.clear();
  if (error || !value.is_object()) return;
  for (const auto& item : value.get_object()) {
    if (item.value().is_string()) {
      state.packages[std::string(item.key())] = std::string(item.value().get_string());
    }
  }
}

void Service::on_profile_failed(const std::string& name, const std::string& text) {
  LOG_WARN("profile failed", {{"profile", name}, {"reason", text}});
  const MutexLock lock(mutex_);
  starting_.erase(name);
  ProfileState& state = profiles_[name];
  state.ready = false;
  state.failure = text;
}

void Service::on_exited(const WorkerExit& exit) {
  std::shared_ptr<RunningTask> task;
  Uuid tenant;
  {
    const MutexLock lock(mutex_);
    const auto worker = by_number_.find(exit.worker);
    if (worker == by_number_.end()) return;
    tenant = worker->second.tenant;
    const auto entry = tasks_.find(worker->second.task_id);
    by_number_.erase(worker);
    if (entry != tasks_.end()) {
      task = entry->second.task;
      if (--entry->second.workers == 0) tasks_.erase(entry);
    }
    meters_.tasks.set(static_cast<std::int64_t>(tasks_.size()));
    ended_.notify_all();
  }
  unreserve(tenant, 1);
  meters_.registry
      .counter("onggi_active_worker_ends_total", "Ended workers by what ended them.",
               {{"reason", std::string(name_of(exit.reason))}})
      .add();
  if (task) task->worker_exited(exit);
}

void Service::on_lost() {
  std::vector<std::uint64_t> numbers;
  {
    const MutexLock lock(mutex_);
    if (!stopping_) {
      LOG_ERROR("broker lost", {{"workers", static_cast<std::uint64_t>(by_number_.size())}});
      meters_.broker_losses.add();
    }
    broker_failure_ = "the broker is being started again";
    starting_.clear();
    for (auto& [name, state] : profiles_) state.ready = false;
    for (const auto& [number, worker] : by_number_) numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) {
    on_exited({.worker = number,
               .reason = ExitReason::profile_lost,
               .text = "the broker ended, and with it every worker; send the task again"});
  }
}

// --- questions

Result<std::shared_ptr<Task>> Service::find(const Uuid& id,
                                            const std::optional<Uuid>& tenant) const {
  const MutexLock lock(mutex_);
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || (tenant && *tenant != found->second.task->tenant())) {
    return fail(ErrorCode::not_found, "no such task");
  }
  return std::shared_ptr<Task>(found->second.task);
}

std::vector<TaskSummary> Service::list(const std::optional<Uuid>& tenant) const {
  std::vector<TaskSummary> summaries;
  for (const auto& task : tasks_now()) {
    if (!tenant || *tenant == task->tenant()) summaries.push_back(task->summary());
  }
  return summaries;
}

std::vector<ProfileState> Service::profiles() const {
  const MutexLock lock(mutex_);
  std::vector<ProfileState> states;
  for (const auto& [name, state] : profiles_) states.push_back(state);
  return states;
}

SandboxReport Service::report() const {
  const MutexLock lock(mutex_);
  const std::string& failure = broker_failure_.empty() ? abilities_.failure : broker_failure_;
  const bool ok = failure.empty();
  SandboxReport report{.ok = ok, .items = {}};
  report.items.push_back(
      {.name = "walls",
       .available = ok,
       .required = true,
       .detail = ok ? "namespaces, pivot_root, seccomp and no_new_privs work" : failure});
  report.items.push_back(
      {.name = "identity",
       .available = abilities_.privileged,
       .required = false,
       .detail = abilities_.privileged
                     ? "each tenant's workers have a uid of their own"
                     : "the daemon is not root: all tenants' workers have its uid"});
  report.items.push_back(
      {.name = "landlock",
       .available = abilities_.landlock > 0,
       .required = false,
       .detail = abilities_.landlock > 0
                     ? fmt::format("ABI {}", abilities_.landlock)
                     : "not in this kernel: mounts alone keep workers from files"});
  const bool groups = std::ranges::count(abilities_.cgroup_controllers, "memory") > 0 &&
                      std::ranges::count(abilities_.cgroup_controllers, "pids") > 0;
  report.items.push_back(
      {.name = "cgroups",
       .available = groups,
       .required = false,
       .detail = groups ? fmt::format("v{}: {}", abilities_.cgroup_version,
                                      fmt::join(abilities_.cgroup_controllers, ", "))
                        : "no memory and pids controllers to use: only rlimits hold workers to "
                          "their memory and processes"});
  return report;
}

}  // namespace

Result<std::unique_ptr<TaskService>> TaskService::start(TaskServiceOptions options,
                                                        metrics::Registry& metrics, Clock& clock) {
  auto service = std::make_unique<Service>(std::move(options), metrics, clock);
  service->open();
  return service;
}

}  // namespace onggi::active
