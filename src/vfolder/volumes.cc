#include "vfolder/volumes.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "vfolder/names.h"

namespace onggi::vfolder {
namespace {

// How often requests may make the node try a broken volume again.
constexpr std::chrono::seconds kRetryAfter{5};

Status require_admin(const Principal& caller) {
  if (caller.is_admin()) return {};
  return fail(ErrorCode::permission_denied, "this needs a token of scope admin");
}

tl::unexpected<Error> no_such_volume(std::string_view name) {
  return fail(ErrorCode::not_found, fmt::format("no such volume: '{}'", name));
}

}  // namespace

Volumes::Volumes(catalog::Catalog& catalog, const backend::Registry& registry, Clock& clock,
                 VolumesOptions options)
    : catalog_(catalog), registry_(registry), clock_(clock), options_(std::move(options)) {}

Result<std::shared_ptr<backend::Backend>> Volumes::open(const VolumeConfig& volume) const {
  ASSIGN_OR_RETURN(auto opened, registry_.open(volume.spec));
  if (options_.wrap) opened = options_.wrap(std::move(opened), volume.name);
  return std::shared_ptr<backend::Backend>(std::move(opened));
}

void Volumes::open_into(Volume volume) {
  auto opened = open(volume.config);
  volume.tried = clock_.steady_now();
  if (opened) {
    volume.backend = *std::move(opened);
    volume.error.clear();
  } else {
    volume.error = opened.error().message();
    LOG_ERROR("volume unhealthy", {{"volume", volume.config.name}, {"error", volume.error}});
  }
  const MutexLock lock(mutex_);
  const std::string name = volume.config.name;
  volumes_.insert_or_assign(name, std::move(volume));
}

Status Volumes::open_all() {
  for (const auto& config : options_.configured) {
    if (auto named = check_name("volume", config.name); !named) {
      return tl::unexpected(std::move(named).error().with(
          fmt::format("volume '{}' of the configuration", config.name)));
    }
    open_into({.config = config, .configured = true, .backend = {}, .error = {}, .tried = {}});
  }
  ASSIGN_OR_RETURN(auto added, catalog_.volumes().list());
  for (auto& volume : added) {
    {
      const MutexLock lock(mutex_);
      if (volumes_.contains(volume.name)) {
        LOG_WARN("volume of the configuration hides an added one", {{"volume", volume.name}});
        continue;
      }
    }
    open_into({.config = {.name = std::move(volume.name),
                          .spec = {.backend = std::move(volume.backend),
                                   .options = std::move(volume.options)}},
               .configured = false,
               .backend = {},
               .error = {},
               .tried = {}});
  }
  return {};
}

Result<VolumeStatus> Volumes::add(const Principal& caller, const VolumeConfig& volume) {
  RETURN_IF_ERROR(require_admin(caller));
  RETURN_IF_ERROR(check_name("volume", volume.name));
  {
    const MutexLock lock(mutex_);
    if (volumes_.contains(volume.name)) {
      return fail(ErrorCode::already_exists, "a volume of this name exists");
    }
    if (volumes_.size() >= options_.volumes_max) {
      return fail(ErrorCode::resource_exhausted,
                  fmt::format("there are {} volumes, the most allowed", volumes_.size()));
    }
  }
  ASSIGN_OR_RETURN(auto opened, open(volume));
  // The catalog decides between two who add the same name at once.
  RETURN_IF_ERROR(catalog_.volumes().insert({.name = volume.name,
                                             .backend = volume.spec.backend,
                                             .options = volume.spec.options,
                                             .created = clock_.now()}));
  Volume made{.config = volume,
              .configured = false,
              .backend = std::move(opened),
              .error = {},
              .tried = clock_.steady_now()};
  {
    const MutexLock lock(mutex_);
    volumes_.insert_or_assign(volume.name, made);
  }
  return status_of(made);
}

Status Volumes::remove(const Principal& caller, std::string_view name) {
  RETURN_IF_ERROR(require_admin(caller));
  {
    const MutexLock lock(mutex_);
    const auto found = volumes_.find(name);
    if (found == volumes_.end()) return no_such_volume(name);
    if (found->second.configured) {
      return fail(ErrorCode::conflict,
                  "the volume is set in the daemon's configuration: remove it there");
    }
  }
  RETURN_IF_ERROR(catalog_.volumes().remove(name));
  const MutexLock lock(mutex_);
  volumes_.erase(std::string(name));
  return {};
}

VolumeStatus Volumes::status_of(const Volume& volume) {
  VolumeStatus status{.name = volume.config.name,
                      .spec = volume.config.spec,
                      .configured = volume.configured,
                      .error = {},
                      .capabilities = {},
                      .space = {}};
  if (!volume.backend) {
    status.error = volume.error;
    return status;
  }
  status.capabilities = volume.backend->capabilities();
  auto space = volume.backend->space();
  if (space) {
    status.space = *space;
  } else if (space.error().code() != ErrorCode::unsupported) {
    status.error = space.error().message();
  }
  return status;
}

std::vector<VolumeStatus> Volumes::list() {
  std::vector<Volume> volumes;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, volume] : volumes_) volumes.push_back(volume);
  }
  std::vector<VolumeStatus> all;
  all.reserve(volumes.size());
  for (const auto& volume : volumes) all.push_back(status_of(volume));
  return all;
}

Result<VolumeStatus> Volumes::get(std::string_view name) {
  Volume volume;
  {
    const MutexLock lock(mutex_);
    const auto found = volumes_.find(name);
    if (found == volumes_.end()) return no_such_volume(name);
    volume = found->second;
  }
  return status_of(volume);
}

Result<std::shared_ptr<backend::Backend>> Volumes::backend(std::string_view name) {
  Volume volume;
  {
    const MutexLock lock(mutex_);
    const auto found = volumes_.find(name);
    if (found == volumes_.end()) return no_such_volume(name);
    if (found->second.backend) return found->second.backend;
    volume = found->second;
    const bool retry = clock_.steady_now() - volume.tried >= kRetryAfter;
    if (retry) found->second.tried = clock_.steady_now();
    if (!retry) {
      return fail(ErrorCode::unavailable,
                  fmt::format("volume '{}' is unhealthy: {}", name, volume.error));
    }
  }
  open_into(std::move(volume));
  const MutexLock lock(mutex_);
  const auto found = volumes_.find(name);
  if (found == volumes_.end()) return no_such_volume(name);
  if (found->second.backend) return found->second.backend;
  return fail(ErrorCode::unavailable,
              fmt::format("volume '{}' is unhealthy: {}", name, found->second.error));
}

std::vector<std::string> Volumes::names() {
  const MutexLock lock(mutex_);
  std::vector<std::string> names;
  names.reserve(volumes_.size());
  for (const auto& [name, volume] : volumes_) names.push_back(name);
  return names;
}

}  // namespace onggi::vfolder
