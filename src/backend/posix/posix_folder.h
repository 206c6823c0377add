#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/posix/volume_state.h"
#include "base/file_descriptor.h"

namespace onggi::backend {

// A vfolder that is a directory of this host. `root` is open for reading.
std::unique_ptr<Folder> make_posix_folder(FileDescriptor root, SharedVolumeState volume);

}  // namespace onggi::backend
