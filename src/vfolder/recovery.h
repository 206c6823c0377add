#pragma once

#include <chrono>
#include <functional>

#include "base/clock.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "metrics/metrics.h"
#include "vfolder/uploads.h"
#include "vfolder/vfolders.h"
#include "vfolder/volumes.h"

namespace onggi::vfolder {

struct RecoveryOptions {
  std::chrono::seconds staging_age{3600};  // staging files untouched for longer are nobody's
};

// Finishes what a crash, or a failing storage system, left half done: the one place for it.
// start() and sweep() are called by one thread at a time.
class Recovery {
 public:
  Recovery(catalog::Catalog& catalog, Volumes& volumes, VFolders& vfolders, Uploads& uploads,
           Clock& clock, metrics::Registry& metrics, RecoveryOptions options = {});

  // Before serving, after Volumes::open_all(): folders half removed or half made, upload sessions
  // past their time, staging files of no session. Volumes that are unhealthy are left for later.
  Status start();
  // Every few minutes while serving: the same, sparing what may be in use.
  Status sweep();

 private:
  Status finish_removals(catalog::VFolderState state);
  Status for_each(catalog::VFolderState state,
                  const std::function<Status(const catalog::VFolder&)>& work);
  Status collect_in(const catalog::VFolder& vfolder, UnixTime before, bool at_start);
  Status collect_staging(UnixTime before, bool at_start);

  catalog::Catalog& catalog_;
  Volumes& volumes_;
  VFolders& vfolders_;
  Uploads& uploads_;
  Clock& clock_;
  const RecoveryOptions options_;
  metrics::Counter& removals_;
  metrics::Counter& staging_;
};

}  // namespace onggi::vfolder
