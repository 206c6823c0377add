#include "backend/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace onggi::backend {

Result<std::unique_ptr<Backend>> Registry::open(const BackendSpec& spec) const {
  const auto found = openers_.find(spec.backend);
  if (found == openers_.end()) {
    return fail(ErrorCode::invalid_argument, fmt::format("unknown backend '{}': this build has {}",
                                                         spec.backend, fmt::join(names(), ", ")));
  }
  return found->second(spec);
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> names;
  names.reserve(openers_.size());
  for (const auto& [name, open] : openers_) names.push_back(name);
  return names;
}

}  // namespace onggi::backend
