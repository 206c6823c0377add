#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace onggi::client {

// "onggi://volume/vfolder/path/in/it". Volume and vfolder are names; the path may be empty.
struct RemoteUrl {
  std::string volume;
  std::string vfolder;          // empty: the URL names a volume only
  std::string path;             // without slashes around it
  bool trailing_slash = false;  // the path was meant as a directory

  std::string to_string() const;
};

bool is_remote_url(std::string_view text);
// invalid_argument for anything but such a URL, and for "." and ".." in the path. Accepts
// "volume/vfolder/path" without the scheme.
Result<RemoteUrl> parse_remote_url(std::string_view text);

// Joins with one slash; an empty part leaves none.
std::string join_path(std::string_view a, std::string_view b);

}  // namespace onggi::client
