#pragma once

#include <string>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace onggi::daemon {

// Makes the data folder (mode 0700) if need be and locks it, so that no two daemons share one. The
// lock lasts as long as the descriptor, so a killed daemon leaves none behind.
Result<FileDescriptor> lock_data(const std::string& path);

}  // namespace onggi::daemon
