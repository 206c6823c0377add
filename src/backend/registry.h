#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace onggi::backend {

using OpenBackend = std::function<Result<std::unique_ptr<Backend>>(const BackendSpec&)>;

// The backends this build knows, by name. Filled by wiring.cc before the daemon starts.
class Registry {
 public:
  void add(std::string name, OpenBackend open) { openers_[std::move(name)] = std::move(open); }
  // invalid_argument, naming those known, for an unknown backend.
  Result<std::unique_ptr<Backend>> open(const BackendSpec& spec) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, OpenBackend, std::less<>> openers_;
};

}  // namespace onggi::backend
