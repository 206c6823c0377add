#include "daemon/wiring.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "active/task_service.h"
#include "api/native/native_api.h"
#include "backend/backend.h"
#include "backend/layers/limit.h"
#include "backend/layers/metrics_layer.h"
#include "backend/layers/retry.h"
#include "backend/layers/timeout.h"
#include "backend/memory/memory_backend.h"
#include "backend/posix/posix_backend.h"
#include "backend/registry.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "catalog/catalog.h"
#include "catalog/sqlite/sqlite_catalog.h"
#include "daemon/config.h"
#include "daemon/data_lock.h"
#include "daemon/profiles.h"
#include "daemon/sweeper.h"
#include "http/router.h"
#include "http/server.h"
#include "metrics/metrics.h"
#include "vfolder/archives.h"
#include "vfolder/authority.h"
#include "vfolder/files.h"
#include "vfolder/recovery.h"
#include "vfolder/transfer_tokens.h"
#include "vfolder/uploads.h"
#include "vfolder/vfolders.h"
#include "vfolder/volumes.h"

// The only place that names concrete classes.
namespace onggi::daemon {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string node_name(const Config& config) {
  if (!config.node.name.empty()) return config.node.name;
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "node";
}

http::ServerOptions server_options(const ServerConfig& config, const std::string& data) {
  http::ServerOptions options;
  options.address = config.address;
  options.port = static_cast<std::uint16_t>(config.port);
  options.unix_socket = config.unix_socket.empty() ? data + "/onggid.sock" : config.unix_socket;
  if (options.unix_socket == "off") options.unix_socket.clear();
  options.tls = {.certificate_file = config.tls_certificate_file, .key_file = config.tls_key_file};
  options.connections_max = config.connections_max;
  options.body_bytes_max = config.body_bytes_max;
  options.header_timeout = seconds(config.header_timeout_seconds);
  options.idle_timeout = seconds(config.idle_timeout_seconds);
  options.stall_timeout = seconds(config.stall_timeout_seconds);
  options.handler_threads = config.handler_threads;
  options.stream_threads = config.stream_threads;
  return options;
}

vfolder::UploadsOptions uploads_options(const UploadsConfig& config) {
  vfolder::UploadsOptions options;
  options.length_max = config.length_bytes_max;
  options.expiry = seconds(config.expiry_seconds);
  options.per_vfolder_max = config.per_vfolder_max;
  return options;
}

vfolder::AuthorityOptions authority_options(const TokensConfig& config) {
  vfolder::AuthorityOptions options;
  options.cache_age = seconds(config.cache_seconds);
  options.tokens_per_tenant_max = config.per_tenant_max;
  return options;
}

// What one can do about a server that does not start.
std::string_view remedy_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "Change server.address, server.unix_socket or server.tls_… in the settings";
    case ErrorCode::already_exists:
      return "Stop what listens there, or set another server.unix_socket";
    case ErrorCode::permission_denied:
      return "Ports below 1024 need root: choose another with --port";
    default:
      return "Is another onggid running? Stop it, or choose another port with --port";
  }
}

Error with_remedy(const Error& error, const ServerConfig& config) {
  return {error.code(), fmt::format("cannot listen on {}:{}: {}. {}", config.address, config.port,
                                    error.message(), remedy_of(error.code()))};
}

std::vector<vfolder::VolumeConfig> volumes_of(const Config& config) {
  std::vector<vfolder::VolumeConfig> volumes;
  volumes.reserve(config.volumes.size());
  for (const VolumeTable& table : config.volumes) {
    volumes.push_back(
        {.name = table.name, .spec = {.backend = table.backend, .options = table.options}});
  }
  return volumes;
}

// A volume "local" in the data folder, unless the configuration names others.
Result<std::vector<vfolder::VolumeConfig>> configured_volumes(const Config& config,
                                                              const std::string& data) {
  std::vector<vfolder::VolumeConfig> volumes = volumes_of(config);
  if (!volumes.empty()) return volumes;
  const std::string path = data + "/volumes/local";
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(ErrorCode::internal, fmt::format("{}: {}", path, error.message()));
  volumes.push_back({.name = "local", .spec = {.backend = "posix", .options = {{"path", path}}}});
  return volumes;
}

// The backends of this build.
void register_backends(backend::Registry& registry, const Clock& clock) {
  registry.add("posix", backend::open_posix_backend);
  registry.add("memory", [&clock](const backend::BackendSpec& spec) {
    return backend::open_memory_backend(spec, clock);
  });
}

// Outermost first. Order is meaning: metrics see what callers see, retry sees one attempt.
std::unique_ptr<backend::Backend> with_layers(std::unique_ptr<backend::Backend> raw,
                                              const std::string& volume,
                                              const StorageConfig& config,
                                              metrics::Registry& metrics, Clock& clock) {
  backend::LimitOptions limit;
  limit.in_flight_max = config.volume_operations_max;
  limit.waiting_max = config.volume_waiting_max;
  backend::TimeoutOptions timeout;
  timeout.limit = seconds(config.timeout_seconds);
  timeout.threads = config.volume_operations_max;
  timeout.queue_max = config.volume_waiting_max;
  backend::RetryOptions retry;
  retry.attempts_max = static_cast<int>(config.attempts_max);
  auto limited = backend::with_limit(std::move(raw), volume, limit, metrics);
  // A local disk answers or fails: there a thread of the volume's own would only cost its wake-up.
  auto timed = limited->capabilities().remote
                   ? backend::with_timeout(std::move(limited), volume, timeout)
                   : std::move(limited);
  auto retried = backend::with_retry(std::move(timed), retry, clock);
  return backend::with_metrics(std::move(retried), volume, metrics, clock);
}

// A volume that cannot be opened now may be later; one of a backend that is not there never can.
Status check_backends(const std::vector<vfolder::VolumeConfig>& volumes,
                      const backend::Registry& registry) {
  const std::vector<std::string> known = registry.names();
  for (const vfolder::VolumeConfig& volume : volumes) {
    if (std::ranges::find(known, volume.spec.backend) != known.end()) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("volumes.backend of {}: there is no backend {}; this build has {}",
                            volume.name, volume.spec.backend, fmt::join(known, ", ")));
  }
  return {};
}

// In the order they are built; members go backwards.
class Node final : public Daemon {
 public:
  Node(Config config, std::string data, FileDescriptor lock)
      : config_(std::move(config)), data_(std::move(data)), lock_(std::move(lock)) {}
  ~Node() override { stop(milliseconds(0)); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  Node(Node&&) = delete;
  Node& operator=(Node&&) = delete;

  Status open_storage();
  Status serve();

  std::uint16_t port() const override { return server_->port(); }
  std::string greeting() const override;
  bool stop(milliseconds grace) override;

 private:
  Status start_tasks();

  const Config config_;
  const std::string data_;
  const FileDescriptor lock_;
  SystemClock clock_;
  metrics::Registry metrics_;
  backend::Registry backends_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::unique_ptr<vfolder::Volumes> volumes_;
  std::unique_ptr<vfolder::Authority> authority_;
  std::unique_ptr<vfolder::VFolders> vfolders_;
  std::unique_ptr<vfolder::Files> files_;
  std::unique_ptr<vfolder::Uploads> uploads_;
  std::unique_ptr<vfolder::Archives> archives_;
  std::unique_ptr<vfolder::TransferTokens> transfer_tokens_;
  std::unique_ptr<vfolder::Recovery> recovery_;
  std::unique_ptr<active::TaskService> tasks_;
  std::unique_ptr<api::NativeApi> api_;
  http::Router router_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<Sweeper> sweeper_;
  bool stopped_ = false;
  bool finished_ = true;
};

Status Node::open_storage() {
  ASSIGN_OR_RETURN(catalog_, catalog::open_sqlite_catalog({.path = data_ + "/catalog.sqlite"}));
  register_backends(backends_, clock_);
  vfolder::VolumesOptions volumes;
  ASSIGN_OR_RETURN(volumes.configured, configured_volumes(config_, data_));
  RETURN_IF_ERROR(check_backends(volumes.configured, backends_));
  volumes.wrap = [this](std::unique_ptr<backend::Backend> raw, const std::string& volume) {
    return with_layers(std::move(raw), volume, config_.storage, metrics_, clock_);
  };
  volumes_ = std::make_unique<vfolder::Volumes>(*catalog_, backends_, clock_, std::move(volumes));
  RETURN_IF_ERROR(volumes_->open_all());

  authority_ = std::make_unique<vfolder::Authority>(*catalog_, clock_, metrics_,
                                                    authority_options(config_.tokens));
  RETURN_IF_ERROR(authority_->bootstrap(data_));
  vfolders_ = std::make_unique<vfolder::VFolders>(*catalog_, *volumes_, clock_);
  files_ = std::make_unique<vfolder::Files>(*vfolders_, metrics_);
  uploads_ = std::make_unique<vfolder::Uploads>(*catalog_, *vfolders_, clock_, metrics_,
                                                uploads_options(config_.uploads));
  archives_ = std::make_unique<vfolder::Archives>(*vfolders_, metrics_);
  ASSIGN_OR_RETURN(vfolder::TransferTokens transfer_tokens,
                   vfolder::TransferTokens::open(*catalog_, clock_));
  transfer_tokens_ = std::make_unique<vfolder::TransferTokens>(std::move(transfer_tokens));
  recovery_ = std::make_unique<vfolder::Recovery>(*catalog_, *volumes_, *vfolders_, *uploads_,
                                                  clock_, metrics_);
  return recovery_->start();
}

Status Node::start_tasks() {
  if (!config_.active.enabled) return {};
  ASSIGN_OR_RETURN(active::TaskServiceOptions options, task_service_options(config_.active));
  ASSIGN_OR_RETURN(tasks_, active::TaskService::start(std::move(options), metrics_, clock_));
  return {};
}

Status Node::serve() {
  RETURN_IF_ERROR(start_tasks());
  const api::Services services{.catalog = *catalog_,
                               .authority = *authority_,
                               .volumes = *volumes_,
                               .vfolders = *vfolders_,
                               .files = *files_,
                               .uploads = *uploads_,
                               .archives = *archives_,
                               .transfer_tokens = *transfer_tokens_,
                               .tasks = tasks_.get(),
                               .metrics = metrics_,
                               .clock = clock_};
  api::NativeApiOptions options;
  options.node_name = node_name(config_);
  options.node_tier = config_.node.tier;
  options.version = version();
  options.trusted_uid = geteuid();
  options.transfer_expires_in = seconds(config_.tokens.transfer_seconds);
  api_ = std::make_unique<api::NativeApi>(services, std::move(options));
  api::bind(router_, *api_);
  Result<std::unique_ptr<http::Server>> server =
      http::Server::start(server_options(config_.server, data_), router_, metrics_);
  if (!server) return tl::unexpected(with_remedy(server.error(), config_.server));
  server_ = *std::move(server);
  sweeper_ = std::make_unique<Sweeper>(seconds(config_.storage.sweep_seconds), [this] {
    if (const Status swept = recovery_->sweep(); !swept) {
      LOG_WARN("sweep failed", {{"error", swept.error().message()}});
    }
  });
  return {};
}

std::string Node::greeting() const {
  const bool tls = !config_.server.tls_certificate_file.empty();
  const http::ServerOptions options = server_options(config_.server, data_);
  const std::string socket =
      options.unix_socket.empty() ? "" : fmt::format(" and {}", options.unix_socket);
  return fmt::format("onggid {} serves {}://{}:{}{}; the admin token is in {}/admin.token",
                     version(), tls ? "https" : "http", config_.server.address, port(), socket,
                     data_);
}

bool Node::stop(milliseconds grace) {
  if (std::exchange(stopped_, true)) return finished_;
  if (sweeper_) sweeper_->stop();
  // Side by side, since a response that streams a task ends only with the task. Tasks get a
  // little less time, so that their last frames still reach the client.
  std::thread tasks([this, grace] {
    if (tasks_) tasks_->stop(grace * 9 / 10);
  });
  if (server_) finished_ = server_->stop(grace);
  tasks.join();
  server_.reset();
  return finished_;
}

}  // namespace

std::string_view version() {
  return ONGGI_VERSION;
}

Status check_config(const Config& config) {
  const SystemClock clock;
  backend::Registry backends;
  register_backends(backends, clock);
  RETURN_IF_ERROR(check_backends(volumes_of(config), backends));
  RETURN_IF_ERROR(task_service_options(config.active));
  RETURN_IF_ERROR(data_path(config));
  return {};
}

Result<std::unique_ptr<Daemon>> Daemon::start(const Config& config) {
  ASSIGN_OR_RETURN(std::string data, data_path(config));
  ASSIGN_OR_RETURN(FileDescriptor lock, lock_data(data));
  auto node = std::make_unique<Node>(config, std::move(data), std::move(lock));
  RETURN_IF_ERROR(node->open_storage());
  RETURN_IF_ERROR(node->serve());
  return node;
}

}  // namespace onggi::daemon
