#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "backend/posix/volume_state.h"
#include "base/file_descriptor.h"

namespace onggi::backend {

// Opens "<root>/.upload/<upload hex>".
Result<std::unique_ptr<StagedFile>> open_staged_file(std::shared_ptr<const FileDescriptor> root,
                                                     const Uuid& upload, bool create,
                                                     std::uint64_t size_hint,
                                                     SharedVolumeState volume);

// The staging directory, opened for reading; made when missing and `create`.
Result<FileDescriptor> open_staging_directory(int root, bool create);

}  // namespace onggi::backend
