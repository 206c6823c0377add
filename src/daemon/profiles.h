#pragma once

#include <string>

#include <generated/daemon/config.h>

#include "active/task_service.h"
#include "base/result.h"

namespace onggi::daemon {

// The options of the task service: the broker and the interpreter are looked for beside this
// program where the settings do not name them.
Result<active::TaskServiceOptions> task_service_options(const ActiveConfig& config);

}  // namespace onggi::daemon
