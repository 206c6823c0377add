#pragma once

#include <memory>

#include "backend/backend.h"
#include "base/result.h"

namespace onggi::backend {

// A volume on any POSIX file system, in Backend.AI's layout. Options: "path", the directory (made
// when missing; its parent must exist). Needs openat2 (Linux 5.6).
Result<std::unique_ptr<Backend>> open_posix_backend(const BackendSpec& spec);

}  // namespace onggi::backend
