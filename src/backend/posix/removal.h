#pragma once

#include <string>

#include "base/result.h"

namespace onggi::backend {

// Removes a directory's content, or a whole tree. Never follows a link; makes directories that are
// not accessible accessible first.
Status remove_content(int directory);
Status remove_tree(int parent, const std::string& name);

}  // namespace onggi::backend
