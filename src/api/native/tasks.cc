#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "api/native/native_api.h"
#include "api/native/serve.h"
#include "api/native/session_sink.h"
#include "api/native/status.h"
#include "http/router.h"

namespace onggi::api {

namespace {

constexpr std::string_view kFramesType = "application/vnd.onggi.frames";

std::optional<http::Response> refuse_other_type(const http::Request& request) {
  if (request.headers.get("Content-Type") == kFramesType) return std::nullopt;
  return http::problem(415, "invalid_argument",
                       fmt::format("the body's Content-Type must be {}", kFramesType),
                       request.request_id);
}

// A task's frames on their way out. The task dies with its response: when the client leaves, the
// server cancels; when the response is over, the task is too.
class TaskStream final : public http::Stream {
 public:
  explicit TaskStream(std::shared_ptr<active::Task> task) : task_(std::move(task)) {}
  ~TaskStream() override { task_->cancel(); }
  TaskStream(const TaskStream&) = delete;
  TaskStream& operator=(const TaskStream&) = delete;
  TaskStream(TaskStream&&) = delete;
  TaskStream& operator=(TaskStream&&) = delete;

  Result<std::span<const std::byte>> next() override { return task_->next(); }
  void cancel() override { task_->cancel(); }

 private:
  // Shared with the service, which lists it and takes further commands for it.
  std::shared_ptr<active::Task> task_;
};

// Lets SessionSink feed an intake, which has nothing to abandon: it just goes.
class TaskSession {
 public:
  explicit TaskSession(std::unique_ptr<active::TaskIntake> intake) : intake_(std::move(intake)) {}
  std::span<std::byte> buffer() { return intake_->buffer(); }
  Status commit(std::size_t bytes) { return intake_->commit(bytes); }
  Result<std::shared_ptr<active::Task>> finish() { return intake_->finish(); }
  void abandon() { intake_.reset(); }

 private:
  std::unique_ptr<active::TaskIntake> intake_;
};

// Collects the frames of one request, up to a limit.
class CommandSession {
 public:
  CommandSession(std::shared_ptr<active::Task> task, std::size_t bytes_max)
      : task_(std::move(task)), bytes_max_(bytes_max) {}

  std::span<std::byte> buffer() {
    bytes_.resize(std::max(filled_ + kStepBytes, bytes_.size()));
    return std::span(bytes_).subspan(filled_);
  }

  Status commit(std::size_t bytes) {
    filled_ += bytes;
    if (filled_ <= bytes_max_) return {};
    return fail(ErrorCode::too_large, fmt::format("more than {} bytes of commands", bytes_max_));
  }

  Status finish() { return task_->push(std::span<const std::byte>(bytes_).first(filled_)); }
  void abandon() {}

 private:
  static constexpr std::size_t kStepBytes = std::size_t{64} << 10;

  std::shared_ptr<active::Task> task_;  // shared with the response that streams it
  const std::size_t bytes_max_;
  std::vector<std::byte> bytes_;
  std::size_t filled_ = 0;
};

http::Response task_response(std::shared_ptr<active::Task> task) {
  http::Response response;
  response.headers.set("Content-Type", std::string(kFramesType));
  response.headers.set("Onggi-Task", task->id().to_string());
  response.stream = std::make_unique<TaskStream>(std::move(task));
  return response;
}

// A frame that differs from its checksum was broken on its way here: the sender's to repeat.
http::Response frames_error(const Error& error, std::string_view request_id) {
  const bool mismatch = error.code() == ErrorCode::corruption;
  return mismatch ? error_response({ErrorCode::invalid_argument, error.message()}, request_id)
                  : error_response(error, request_id);
}

std::optional<Uuid> visible_tenant(const vfolder::Principal& caller) {
  return caller.is_admin() ? std::nullopt : std::optional(caller.tenant);
}

}  // namespace

Result<active::TaskService*> NativeApi::task_service() const {
  if (services_.tasks != nullptr) return services_.tasks;
  return fail(ErrorCode::unavailable, "this node runs no tasks (active.enabled is false)");
}

Result<TaskList> NativeApi::list_tasks(const Call& call) {
  TaskList list;
  if (services_.tasks == nullptr) return list;
  for (const active::TaskSummary& task : services_.tasks->list(visible_tenant(call.caller))) {
    list.items.push_back({.id = task.id,
                          .tenant = task.tenant,
                          .profile = task.profile,
                          .entry = task.entry,
                          .workers = task.workers,
                          .started = task.started,
                          .output_bytes = task.output_bytes});
  }
  return list;
}

Result<http::Intake> NativeApi::create_task(const Call& call) {
  ASSIGN_OR_RETURN(active::TaskService * tasks, task_service());
  http::Intake intake;
  intake.response = refuse_other_type(call.request);
  if (intake.response) return intake;
  vfolder::VFolders& vfolders = services_.vfolders;
  auto resolve = [&vfolders, caller = call.caller](const Uuid& id) -> Result<FileDescriptor> {
    ASSIGN_OR_RETURN(const auto folder, vfolders.open(caller, id, vfolder::Access::read));
    const std::optional<int> descriptor = folder->descriptor();
    if (!descriptor) {
      return fail(ErrorCode::unsupported,
                  "the vfolder's volume has no files on this host, so nothing can be mounted");
    }
    FileDescriptor own(fcntl(*descriptor, F_DUPFD_CLOEXEC, 0));
    if (!own) return fail_errno("keep the vfolder open");
    return own;
  };
  auto session = std::make_unique<TaskSession>(tasks->open(call.caller.tenant, std::move(resolve)));
  return take_into<TaskSession>(
      std::move(session), [](TaskSession& open) { return open.finish().map(task_response); },
      [request_id = call.request.request_id](const Error& error) {
        return frames_error(error, request_id);
      });
}

Status NativeApi::delete_task(const Call& call, const DeleteTaskParams& params) {
  ASSIGN_OR_RETURN(active::TaskService * tasks, task_service());
  ASSIGN_OR_RETURN(const auto task, tasks->find(params.task, visible_tenant(call.caller)));
  task->cancel();
  return {};
}

Result<http::Intake> NativeApi::send_commands(const Call& call, const SendCommandsParams& params) {
  ASSIGN_OR_RETURN(active::TaskService * tasks, task_service());
  http::Intake intake;
  intake.response = refuse_other_type(call.request);
  if (intake.response) return intake;
  ASSIGN_OR_RETURN(auto task, tasks->find(params.task, visible_tenant(call.caller)));
  auto session = std::make_unique<CommandSession>(std::move(task), options_.commands_bytes_max);
  return take_into<CommandSession>(
      std::move(session),
      [](CommandSession& open) -> Result<http::Response> {
        RETURN_IF_ERROR(open.finish());
        http::Response response;
        response.status = 204;
        return response;
      },
      [request_id = call.request.request_id](const Error& error) {
        return frames_error(error, request_id);
      });
}

}  // namespace onggi::api
