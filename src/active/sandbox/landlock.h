#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace onggi::active {

// The kernel's Landlock ABI; 0 where there is none.
int landlock_abi();

// Lets this process, for good, read below "/" and write below `writable` (directories) and to
// `devices` (files) alone; no signals to others and no abstract sockets where the ABI can (6).
// Does nothing where there is no Landlock. Needs no_new_privs.
Status restrict_with_landlock(const std::vector<std::string>& writable,
                              const std::vector<std::string>& devices);

}  // namespace onggi::active
