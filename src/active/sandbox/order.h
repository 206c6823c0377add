#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace onggi::active {

// What the kernel holds one worker to.
struct WorkerLimits {
  std::uint64_t cpu_seconds = 3600;
  std::uint64_t memory_bytes = 4ULL << 30;
  std::uint64_t wall_ms = 86'400'000;
  std::uint64_t processes = 64;
  std::uint64_t tmp_bytes = 256ULL << 20;
  // Set by the broker where no cgroup holds the worker to its memory.
  bool memory_by_rlimit = false;
};

// One worker to be. `worker` is the daemon's number for it.
struct WorkerOrder {
  std::uint64_t worker = 0;
  std::string profile;
  std::uint32_t uid = 0;  // on the host; 0: stay who we are
  WorkerLimits limits;
  std::string cwd = "/tmp";
  std::vector<std::string> mount_paths;  // absolute, where `mounts` go
};

// The descriptors of an order, in the order in which they travel. From the daemon `mounts` are
// directories; the broker makes detached read-only mounts of them when it has the rights to.
struct WorkerDescriptors {
  FileDescriptor socket;               // frames, both ways
  FileDescriptor out;                  // standard output
  FileDescriptor err;                  // standard error
  FileDescriptor arena;                // sealed memory for results
  std::vector<FileDescriptor> mounts;  // one for each path
};

// Where a worker finds its descriptors behind the walls.
inline constexpr int kWorkerSocketFd = 3;
inline constexpr int kWorkerArenaFd = 4;

inline constexpr std::size_t kMountsMax = 16;

}  // namespace onggi::active
