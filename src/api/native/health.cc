#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sys/sysinfo.h>

#include "api/native/native_api.h"
#include "api/native/serve.h"

namespace onggi::api {

namespace {

// What the kernel thinks can be had without swapping; sysinfo(2) does not know it.
std::uint64_t memory_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  std::string unit;
  while (file >> name >> kibibytes && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

Sandbox sandbox_of(const active::SandboxReport& report) {
  Sandbox sandbox;
  sandbox.ok = report.ok;
  for (const active::SandboxReport::Item& item : report.items) {
    sandbox.items.push_back({.name = item.name,
                             .available = item.available,
                             .required = item.required,
                             .detail = item.detail});
  }
  return sandbox;
}

}  // namespace

Result<Health> NativeApi::get_health(const Call& /*call*/) {
  return Health{.status = "ok"};
}

Result<Health> NativeApi::get_readiness(const Call& /*call*/) {
  if (const auto tenants = services_.catalog.tenants().list(); !tenants) {
    return fail(ErrorCode::unavailable, "the catalog does not answer");
  }
  for (const vfolder::VolumeStatus& volume : services_.volumes.list()) {
    if (volume.error) {
      return fail(ErrorCode::unavailable, fmt::format("volume {} does not answer", volume.name));
    }
  }
  return Health{.status = "ok"};
}

Result<http::Response> NativeApi::get_metrics(const Call& /*call*/) {
  return text_response(200, "text/plain; version=0.0.4", services_.metrics.text());
}

Result<Version> NativeApi::get_version(const Call& /*call*/) {
  return Version{.version = options_.version, .node = options_.node_name, .api = "0.1.0"};
}

Result<Node> NativeApi::get_node(const Call& /*call*/) {
  struct sysinfo machine{};
  sysinfo(&machine);
  Node node{.name = options_.node_name,
            .tier = options_.node_tier,
            .version = options_.version,
            .cpus = std::thread::hardware_concurrency(),
            .memory_bytes = std::uint64_t{machine.totalram} * machine.mem_unit,
            .memory_available_bytes = memory_available_bytes(),
            .workers_max = 0,
            .tasks = 0,
            .profiles = {},
            .sandbox = {.ok = false, .items = {}}};
  if (services_.tasks == nullptr) return node;
  node.workers_max = services_.tasks->workers_max();
  node.tasks = services_.tasks->list(std::nullopt).size();
  node.sandbox = sandbox_of(services_.tasks->report());
  for (const active::ProfileState& state : services_.tasks->profiles()) {
    Profile profile{
        .name = state.name, .ready = state.ready, .failure = {}, .packages = state.packages};
    if (!state.failure.empty()) profile.failure = state.failure;
    node.profiles.push_back(std::move(profile));
  }
  return node;
}

}  // namespace onggi::api
