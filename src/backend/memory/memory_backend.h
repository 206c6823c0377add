#pragma once

#include <memory>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/result.h"

namespace onggi::backend {

// A volume in memory, for tests and for scratch data: gone with the process. Takes no options.
// `clock` dates its files and outlives it.
Result<std::unique_ptr<Backend>> open_memory_backend(const BackendSpec& spec, const Clock& clock);

}  // namespace onggi::backend
