#include "daemon/profiles.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

namespace onggi::daemon {

namespace {

namespace fs = std::filesystem;

fs::path own_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : program.parent_path();
}

bool is_program(const fs::path& path) {
  return access(path.c_str(), X_OK) == 0;
}

// Empty when this machine has no Python: the node then offers the native profile alone.
std::string find_python() {
  const fs::path beside = own_folder() / "python3";
  if (is_program(beside)) return beside;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here ever changes the environment
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, colon)) / "python3";
    if (colon > 0 && is_program(candidate)) return candidate;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return {};
}

template <typename Limits>
active::TaskLimits limits_of(const Limits& config) {
  return {.cpu_seconds = config.cpu_seconds,
          .memory_bytes = config.memory_bytes,
          .wall_seconds = config.wall_seconds,
          .output_bytes = config.output_bytes,
          .processes = config.processes,
          .arena_bytes = config.arena_bytes};
}

Result<std::vector<active::ProfileOptions>> chosen_profiles(const ActiveConfig& config) {
  const std::string python = config.python.empty() ? find_python() : config.python;
  std::vector<active::ProfileOptions> chosen;
  for (active::ProfileOptions& profile : active::default_profiles(python, config.python_path)) {
    const auto found = std::ranges::find(config.profiles, profile.name);
    if (found != config.profiles.end()) chosen.push_back(std::move(profile));
  }
  constexpr std::array<std::string_view, 3> kKnown = {"torch", "numpy", "native"};
  for (const std::string& name : config.profiles) {
    if (std::ranges::find(kKnown, name) == kKnown.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("active.profiles names {}, but there are only {}", name,
                              fmt::join(kKnown, ", ")));
    }
  }
  return chosen;
}

}  // namespace

Result<active::TaskServiceOptions> task_service_options(const ActiveConfig& config) {
  ASSIGN_OR_RETURN(auto profiles, chosen_profiles(config));
  active::TaskServiceOptions options;
  options.broker_program =
      config.broker.empty() ? (own_folder() / "onggi-broker").string() : config.broker;
  options.profiles = std::move(profiles);
  options.prewarm = config.prewarm;
  options.workers_max = config.workers_max;
  options.workers_per_tenant_max = config.workers_per_tenant_max;
  options.workers_per_task_max = config.workers_per_task_max;
  options.payload_bytes_max = config.payload_bytes_max;
  options.limits_default = limits_of(config.limits);
  options.limits_max = limits_of(config.limits_max);
  options.first_uid = static_cast<std::uint32_t>(config.first_uid);
  options.uids = static_cast<std::uint32_t>(config.uids);
  return options;
}

}  // namespace onggi::daemon
