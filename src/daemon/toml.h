#pragma once

#include <string>

// toml++ as all of this module must see it.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace onggi::daemon {

// A value as the file has it, for messages.
std::string shown(const toml::node& node);

}  // namespace onggi::daemon
