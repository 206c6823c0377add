// Runs tasks without a daemon, for the sandbox's tests: one JSON request per line of standard
// input, one JSON answer per line of standard output, each request on a thread of its own.
//   {"id": any, "tenant": uuid?, "spec": {…}, "payload": text, "mounts": {uuid: directory},
//    "commands": [[channel, text], …], "cancel_after_ms": n?}
// Usage: sandbox_run BROKER [PYTHON [PYTHONPATH]]

#include <chrono>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <boost/json.hpp>
#include <fcntl.h>

#include "active/frame.h"
#include "active/sandbox/seccomp_filter.h"
#include "active/task_service.h"
#include "base/clock.h"
#include "base/encoding.h"
#include "base/log.h"
#include "metrics/metrics.h"

namespace {

namespace json = boost::json;
using namespace onggi;          // NOLINT(google-build-using-namespace): a program of its own
using namespace onggi::active;  // NOLINT(google-build-using-namespace)

std::string text_of(const json::object& object, const char* field) {
  const json::value* value = object.if_contains(field);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

void append(std::vector<std::byte>& body, FrameKind kind, std::string_view text,
            std::uint16_t channel = 0, std::uint32_t sequence = 0, std::uint8_t flags = 0) {
  const auto frame = encode_frame(
      {.kind = kind, .flags = flags, .channel = channel, .sequence = sequence}, as_bytes(text));
  body.insert(body.end(), frame.begin(), frame.end());
}

std::vector<std::byte> body_of(const json::object& request) {
  std::vector<std::byte> body;
  append(body, FrameKind::spec, json::serialize(request.at("spec")));
  const std::string payload = text_of(request, "payload");
  if (!payload.empty()) append(body, FrameKind::payload, payload);
  const json::array& commands = request.at("commands").as_array();
  std::uint32_t sequence = 0;
  for (const json::value& command : commands) {
    const std::uint8_t flags = sequence + 1 == commands.size() ? kFlagLast : 0;
    const auto channel = static_cast<std::uint16_t>(command.at(0).as_int64());
    append(body, FrameKind::command, command.at(1).as_string(), channel, sequence++, flags);
  }
  return body;
}

json::object describe(const Frame& frame) {
  json::object object{{"kind", static_cast<int>(frame.head.kind)},
                      {"flags", frame.head.flags},
                      {"channel", frame.head.channel},
                      {"sequence", frame.head.sequence},
                      {"bytes", frame.body.size()}};
  if (frame.body.size() < 65536 && is_utf8(frame.text()))
    object["text"] = std::string(frame.text());
  return object;
}

Result<std::shared_ptr<Task>> start(TaskService& service, const json::object& request) {
  const std::string tenant = text_of(request, "tenant");
  ASSIGN_OR_RETURN(const Uuid id, Uuid::parse(tenant.empty() ? std::string(32, '1') : tenant));
  const json::value* mounts = request.if_contains("mounts");
  auto intake = service.open(id, [&](const Uuid& vfolder) -> Result<FileDescriptor> {
    const std::string directory = text_of(mounts->as_object(), vfolder.to_string().c_str());
    FileDescriptor file(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!file) return fail(ErrorCode::not_found, "no such vfolder");
    return file;
  });
  const std::vector<std::byte> body = body_of(request);
  std::span<const std::byte> rest = body;
  while (!rest.empty()) {
    const auto buffer = intake->buffer();
    const std::size_t count = std::min(buffer.size(), rest.size());
    std::copy_n(rest.begin(), count, buffer.begin());
    RETURN_IF_ERROR(intake->commit(count));
    rest = rest.subspan(count);
  }
  return intake->finish();
}

json::object run(TaskService& service, const json::object& request) {
  const auto begun = std::chrono::steady_clock::now();
  json::object answer{{"id", request.if_contains("id") != nullptr ? request.at("id") : nullptr}};
  auto task = start(service, request);
  if (!task) {
    answer["refused"] = json::object{{"code", std::string(to_string(task.error().code()))},
                                     {"detail", task.error().message()}};
    return answer;
  }
  std::jthread canceller;
  if (const json::value* after = request.if_contains("cancel_after_ms")) {
    canceller = std::jthread([task = *task, ms = after->to_number<int>()] {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      task->cancel();
    });
  }
  json::array frames;
  FrameParser parser;
  while (true) {
    const auto bytes = (*task)->next();
    if (!bytes || bytes->empty()) break;
    const auto status = parser.feed(*bytes, [&](Frame&& frame) -> Status {
      frames.push_back(describe(frame));
      return {};
    });
    if (!status) answer["broken"] = status.error().message();
    if (!status) break;
  }
  (*task)->cancel();
  answer["frames"] = std::move(frames);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  answer["seconds"] = took.count();
  return answer;
}

int serve(TaskService& service) {
  std::mutex output;
  std::vector<std::jthread> threads;
  for (std::string line; std::getline(std::cin, line);) {
    threads.emplace_back([&service, &output, line] {
      const std::string answer = json::serialize(run(service, json::parse(line).as_object()));
      const std::lock_guard lock(output);
      std::cout << answer << std::endl;
    });
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return 2;
  set_up_log({});
  SystemClock clock;
  metrics::Registry metrics;
  TaskServiceOptions options;
  options.broker_program = arguments[0];
  options.profiles = default_profiles(arguments.size() > 1 ? arguments[1] : "",
                                      arguments.size() > 2 ? arguments[2] : "");
  auto service = TaskService::start(std::move(options), metrics, clock);
  if (!service) return 1;
  json::array items;
  for (const auto& item : (*service)->report().items) {
    items.push_back(json::object{{"name", item.name},
                                 {"available", item.available},
                                 {"required", item.required},
                                 {"detail", item.detail}});
  }
  json::array numbers;
  for (const int number : allowed_system_call_numbers()) numbers.emplace_back(number);
  std::cout << json::serialize(json::object{
                   {"ok", (*service)->report().ok}, {"items", items}, {"system_calls", numbers}})
            << std::endl;
  const int status = serve(**service);
  (*service)->stop(std::chrono::seconds(10));  // workers' ends are counted when they have ended
  std::cout << metrics.text() << std::flush;
  return status;
}
