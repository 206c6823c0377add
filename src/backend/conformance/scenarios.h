#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace onggi::backend {

// One promise of the interface in backend.h. `run` expects an empty volume.
struct Scenario {
  std::string name;
  std::function<void(Backend&)> run;
};

inline void PrintTo(  // NOLINT(readability-identifier-naming): how gtest finds it
    const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

// Every backend passes all of them, unchanged, plain and behind layers: TEST_P(MyBackendTest,
// Conforms) with ValuesIn(scenarios()).
std::vector<Scenario> scenarios();

}  // namespace onggi::backend
