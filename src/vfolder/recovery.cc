#include "vfolder/recovery.h"

#include <utility>
#include <vector>

#include "base/log.h"

namespace onggi::vfolder {
namespace {

constexpr std::size_t kPage = 1000;

}  // namespace

Recovery::Recovery(catalog::Catalog& catalog, Volumes& volumes, VFolders& vfolders,
                   Uploads& uploads, Clock& clock, metrics::Registry& metrics,
                   RecoveryOptions options)
    : catalog_(catalog),
      volumes_(volumes),
      vfolders_(vfolders),
      uploads_(uploads),
      clock_(clock),
      options_(options),
      removals_(metrics.counter("onggi_recovered_vfolders_total",
                                "Removals of vfolders finished after a crash or an error")),
      staging_(metrics.counter("onggi_collected_staging_files_total",
                               "Staging files of no upload, removed")) {}

Status Recovery::start() {
  for (const auto& name : volumes_.names()) {
    const auto backend = volumes_.backend(name);
    if (!backend) continue;  // logged when it was opened
    if (auto recovered = (*backend)->recover(); !recovered) {
      LOG_ERROR("volume not recovered", {{"volume", name}, {"error", recovered.error().message()}});
    }
  }
  RETURN_IF_ERROR(finish_removals(true));
  RETURN_IF_ERROR(uploads_.remove_expired());
  // No session is on yet, so whatever lies in staging without a row is nobody's.
  return collect_staging(clock_.now() + std::chrono::seconds(1), true);
}

Status Recovery::sweep() {
  RETURN_IF_ERROR(finish_removals(false));
  RETURN_IF_ERROR(uploads_.remove_expired());
  return collect_staging(clock_.now() - options_.staging_age, false);
}

Status Recovery::finish_removals(bool with_half_made) {
  std::vector<catalog::VFolderState> states{catalog::VFolderState::deleting};
  // While serving, a folder in state creating is one that somebody is making.
  if (with_half_made) states.push_back(catalog::VFolderState::creating);
  for (const auto state : states) {
    Uuid after;
    while (true) {
      ASSIGN_OR_RETURN(const auto page, catalog_.vfolders().in_state(state, after, kPage));
      for (const auto& vfolder : page) {
        after = vfolder.id;
        auto finished = vfolders_.finish_removal(vfolder);
        if (finished) {
          removals_.add();
        } else {
          LOG_WARN("vfolder half removed",
                   {{"vfolder", vfolder.id.to_string()}, {"error", finished.error().message()}});
        }
      }
      if (page.size() < kPage) break;
    }
  }
  return {};
}

Status Recovery::collect_in(const catalog::VFolder& vfolder, UnixTime before, bool at_start) {
  if (at_start) RETURN_IF_ERROR(uploads_.forget_lost(vfolder));
  ASSIGN_OR_RETURN(const auto uploads, catalog_.uploads().list(vfolder.id));
  std::vector<Uuid> keep;
  keep.reserve(uploads.size());
  for (const auto& upload : uploads) keep.push_back(upload.id);
  ASSIGN_OR_RETURN(const auto folder, vfolders_.open_unchecked(vfolder));
  ASSIGN_OR_RETURN(const std::size_t collected, folder->collect_staging(keep, before));
  staging_.add(collected);
  return {};
}

Status Recovery::collect_staging(UnixTime before, bool at_start) {
  Uuid after;
  while (true) {
    ASSIGN_OR_RETURN(const auto page,
                     catalog_.vfolders().in_state(catalog::VFolderState::active, after, kPage));
    for (const auto& vfolder : page) {
      after = vfolder.id;
      if (auto collected = collect_in(vfolder, before, at_start); !collected) {
        LOG_WARN("staging not collected",
                 {{"vfolder", vfolder.id.to_string()}, {"error", collected.error().message()}});
      }
    }
    if (page.size() < kPage) return {};
  }
}

}  // namespace onggi::vfolder
