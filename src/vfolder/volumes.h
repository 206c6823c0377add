#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/registry.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "vfolder/principal.h"

namespace onggi::vfolder {

// Puts the layers around a volume's backend.
using WrapBackend = std::function<std::unique_ptr<backend::Backend>(
    std::unique_ptr<backend::Backend>, const std::string& volume)>;

struct VolumeConfig {
  std::string name;
  backend::BackendSpec spec;
};

struct VolumesOptions {
  std::vector<VolumeConfig> configured;  // from onggid.toml; the API cannot remove these
  WrapBackend wrap;                      // none: the backend as it is
  std::size_t volumes_max = 64;
};

// A volume as listed. One that failed to open has an error and neither capabilities nor space.
struct VolumeStatus {
  std::string name;
  backend::BackendSpec spec;
  bool configured = false;
  std::optional<std::string> error;
  backend::Capabilities capabilities;
  std::optional<backend::Space> space;
};

// The node's volumes and their open backends. Thread-safe; the references must outlive it.
class Volumes {
 public:
  Volumes(catalog::Catalog& catalog, const backend::Registry& registry, Clock& clock,
          VolumesOptions options);

  // Opens every volume, configured and added. One that fails is kept as unhealthy and logged; an
  // error means that the catalog cannot be read or the configuration is wrong.
  Status open_all() EXCLUDES_LOCK(mutex_);

  // For an admin. A volume that does not open is not added.
  Result<VolumeStatus> add(const Principal& caller, const VolumeConfig& volume)
      EXCLUDES_LOCK(mutex_);
  // For an admin; the data stays. conflict while vfolders lie on it or when it is configured.
  Status remove(const Principal& caller, std::string_view name) EXCLUDES_LOCK(mutex_);

  std::vector<VolumeStatus> list() EXCLUDES_LOCK(mutex_);
  Result<VolumeStatus> get(std::string_view name) EXCLUDES_LOCK(mutex_);

  // The backend of volume `name`; an unhealthy one is tried again, at most once in 5 s, before
  // unavailable is returned. Shared, because a request may outlast the volume's removal.
  Result<std::shared_ptr<backend::Backend>> backend(std::string_view name) EXCLUDES_LOCK(mutex_);
  std::vector<std::string> names() EXCLUDES_LOCK(mutex_);

 private:
  struct Volume {
    VolumeConfig config;
    bool configured = false;
    std::shared_ptr<backend::Backend> backend;  // null: unhealthy
    std::string error;
    SteadyTime tried{};
  };

  Result<std::shared_ptr<backend::Backend>> open(const VolumeConfig& volume) const;
  void open_into(Volume volume) EXCLUDES_LOCK(mutex_);
  static VolumeStatus status_of(const Volume& volume);

  catalog::Catalog& catalog_;
  const backend::Registry& registry_;
  Clock& clock_;
  const VolumesOptions options_;
  Mutex mutex_;
  std::map<std::string, Volume, std::less<>> volumes_ GUARDED_BY(mutex_);
};

}  // namespace onggi::vfolder
