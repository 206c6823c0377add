#pragma once

#include <map>
#include <string>
#include <string_view>

#include <generated/daemon/config.h>

#include "base/result.h"

namespace onggi::daemon {

using Environment = std::map<std::string, std::string>;

// The variables of this process that start with ONGGI_.
Environment onggi_environment();

// The defaults, then the file (none when `path` is empty), then the environment. Every error names
// the file or variable, the key, what is wrong with it and what to write instead.
Result<Config> load_config(const std::string& path, const Environment& environment);
// The same of a file's text; `name` is what errors call it.
Result<Config> parse_config(std::string_view text, std::string_view name,
                            const Environment& environment);

// Sets one key from text, as environment and command line do; `origin` is what errors call it.
Status set_setting(Config& config, std::string_view key, std::string_view text,
                   std::string_view origin);

// data.path, or its default: /var/lib/onggi for root, else ~/.local/share/onggi.
Result<std::string> data_path(const Config& config);

}  // namespace onggi::daemon
