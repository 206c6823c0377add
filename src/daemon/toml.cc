#include "daemon/toml.h"

#include <sstream>

namespace onggi::daemon {

std::string shown(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

}  // namespace onggi::daemon
