#pragma once

#include <memory>

#include "backend/backend.h"
#include "base/file_descriptor.h"

namespace onggi::backend {

// A vfolder that is a directory of this host. `root` is open for reading.
std::unique_ptr<Folder> make_posix_folder(FileDescriptor root);

}  // namespace onggi::backend
