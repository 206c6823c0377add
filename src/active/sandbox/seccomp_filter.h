#pragma once

#include <string>
#include <vector>

#include <linux/filter.h>

#include "base/result.h"

namespace onggi::active {

// The names of the system calls that a worker may make with any arguments.
std::vector<std::string> allowed_system_calls();

// The numbers, on x86-64, of all calls that the filter may let through: those above, and those that
// it lets through with certain arguments.
std::vector<int> allowed_system_call_numbers();

// Compiles the allow-list: everything else gives EPERM, other ABIs (i386, x32) kill the process.
// Needs libseccomp, allocates; done once before forking.
Result<std::vector<sock_filter>> compile_seccomp_filter();

// Puts the filter on this process for good. Needs no_new_privs.
Status load_seccomp_filter(const std::vector<sock_filter>& filter);

}  // namespace onggi::active
