#pragma once

#include <string_view>

#include "base/result.h"

namespace onggi::vfolder {

// 1 to 128 bytes of UTF-8 without '/', control characters, or a leading '.'.
Status check_vfolder_name(std::string_view name);

// `what` is "tenant", "token" or "volume": 1 to 63 of [A-Za-z0-9._-], starting with a letter or
// digit.
Status check_name(std::string_view what, std::string_view name);

}  // namespace onggi::vfolder
