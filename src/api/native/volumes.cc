#include <array>
#include <utility>

#include "api/native/native_api.h"

namespace onggi::api {

namespace {

std::vector<std::string> names_of(const backend::Capabilities& capabilities) {
  const std::array<std::pair<bool, const char*>, 8> all = {{{capabilities.quota, "quota"},
                                                            {capabilities.usage, "usage"},
                                                            {capabilities.clone, "clone"},
                                                            {capabilities.snapshot, "snapshot"},
                                                            {capabilities.metrics, "metrics"},
                                                            {capabilities.direct, "direct"},
                                                            {capabilities.durable, "durable"},
                                                            {capabilities.remote, "remote"}}};
  std::vector<std::string> names;
  for (const auto& [has, name] : all) {
    if (has) names.emplace_back(name);
  }
  return names;
}

// Options hold paths of this machine and may hold credentials: administrators' business. So may the
// text of an error.
Volume volume_of(const vfolder::VolumeStatus& status, bool for_admin) {
  Volume volume{.name = status.name,
                .backend = status.spec.backend,
                .configured = status.configured,
                .error = {},
                .capabilities = names_of(status.capabilities),
                .space = {},
                .options = {}};
  if (for_admin) volume.options = status.spec.options;
  if (status.error) volume.error = for_admin ? *status.error : "not available";
  if (status.space) {
    volume.space = Space{.total_bytes = status.space->total_bytes,
                         .available_bytes = status.space->available_bytes,
                         .inodes_total = status.space->inodes_total,
                         .inodes_available = status.space->inodes_available};
  }
  return volume;
}

}  // namespace

Result<VolumeList> NativeApi::list_volumes(const Call& call) {
  VolumeList list;
  for (const vfolder::VolumeStatus& status : services_.volumes.list()) {
    list.items.push_back(volume_of(status, call.caller.is_admin()));
  }
  return list;
}

Result<Volume> NativeApi::create_volume(const Call& call, const VolumeCreate& body) {
  const vfolder::VolumeConfig config{.name = body.name,
                                     .spec = {.backend = body.backend, .options = body.options}};
  ASSIGN_OR_RETURN(const vfolder::VolumeStatus status, services_.volumes.add(call.caller, config));
  return volume_of(status, true);
}

Result<Volume> NativeApi::get_volume(const Call& call, const GetVolumeParams& params) {
  ASSIGN_OR_RETURN(const vfolder::VolumeStatus status, services_.volumes.get(params.volume));
  return volume_of(status, call.caller.is_admin());
}

Status NativeApi::delete_volume(const Call& call, const DeleteVolumeParams& params) {
  return services_.volumes.remove(call.caller, params.volume);
}

}  // namespace onggi::api
