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
  RETURN_IF_ERROR(finish_removals(catalog::VFolderState::deleting));
  RETURN_IF_ERROR(finish_removals(catalog::VFolderState::creating));
  RETURN_IF_ERROR(uploads_.remove_expired());
  // No session is on yet, so whatever lies in staging without a row is nobody's.
  return collect_staging(clock_.now() + std::chrono::seconds(1), true);
}

Status Recovery::sweep() {
  // One in state creating is being made by somebody now.
  RETURN_IF_ERROR(finish_removals(catalog::VFolderState::deleting));
  RETURN_IF_ERROR(uploads_.remove_expired());
  return collect_staging(clock_.now() - options_.staging_age, false);
}

Status Recovery::finish_removals(catalog::VFolderState state) {
  return for_each(state, [this](const catalog::VFolder& vfolder) -> Status {
    RETURN_IF_ERROR(vfolders_.finish_removal(vfolder));
    removals_.add();
    return {};
  });
}

// Goes on after an error: one sick volume must not keep the others.
Status Recovery::for_each(catalog::VFolderState state,
                          const std::function<Status(const catalog::VFolder&)>& work) {
  Uuid after;
  while (true) {
    ASSIGN_OR_RETURN(const auto page, catalog_.vfolders().in_state(state, after, kPage));
    for (const auto& vfolder : page) {
      after = vfolder.id;
      if (auto done = work(vfolder); !done) {
        LOG_WARN("vfolder not recovered",
                 {{"vfolder", vfolder.id.to_string()}, {"error", done.error().message()}});
      }
    }
    if (page.size() < kPage) return {};
  }
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
  return for_each(catalog::VFolderState::active, [&](const catalog::VFolder& vfolder) {
    return collect_in(vfolder, before, at_start);
  });
}

}  // namespace onggi::vfolder
