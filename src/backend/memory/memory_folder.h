#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace onggi::backend {

// What one vfolder holds: nodes by path. Thread-safe through its mutex.
struct MemoryTree {
  using Content = std::vector<std::byte>;
  struct Node {
    FileInfo info;
    std::shared_ptr<const Content> content;  // shared with readers; null for a directory
  };
  struct Staged {
    Content content;
    UnixTime touched;
  };

  explicit MemoryTree(const Clock& c) : clock(c) {}

  const Clock& clock;
  // Guards what follows. Only LockedTree reaches it, which holds the mutex for as long as it lives;
  // the compiler's analysis does not see through that.
  Mutex mutex;
  std::map<std::string, Node> nodes;
  std::map<Uuid, Staged> staged;
  std::uint64_t version = 0;
};

std::unique_ptr<Folder> make_memory_folder(std::shared_ptr<MemoryTree> tree);

}  // namespace onggi::backend
