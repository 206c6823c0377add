#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"

namespace onggi::backend {

// Opens "<root>/.upload/<upload hex>". `commits` is held while a precondition is checked and its
// rename done, so that of two writers one wins; it outlives the staged file, as `root` does.
Result<std::unique_ptr<StagedFile>> open_staged_file(int root, const Uuid& upload, bool create,
                                                     std::uint64_t size_hint, Mutex& commits);

}  // namespace onggi::backend
