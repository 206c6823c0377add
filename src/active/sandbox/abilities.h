#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "active/sandbox/cgroups.h"
#include "base/result.h"

namespace onggi::active {

// What the sandbox found on this machine.
struct SandboxAbilities {
  std::string failure;  // why no worker could stand behind its walls; empty when one did
  bool privileged = false;
  bool owner_maps = false;           // workers read files whatever their owner (idmapped mounts)
  std::uint64_t landlock = 0;        // ABI
  std::uint64_t cgroup_version = 0;  // 0: none
  std::vector<std::string> cgroup_controllers;
};

// Builds the walls around a child of ours that does nothing, to see whether it can be done. The
// calling process must have one thread.
SandboxAbilities probe_abilities(const CgroupTree& cgroups, std::uint32_t some_uid);

std::string encode(const SandboxAbilities& value);
Result<SandboxAbilities> decode_sandbox_abilities(std::string_view body);

}  // namespace onggi::active
