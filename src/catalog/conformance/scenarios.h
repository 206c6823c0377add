#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace onggi::catalog {

// One promise of the interface in catalog.h. `run` expects an empty catalog.
struct Scenario {
  std::string name;
  std::function<void(Catalog&)> run;
};

inline void PrintTo(  // NOLINT(readability-identifier-naming): how gtest finds it
    const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

// Every catalog passes all of them, unchanged: TEST_P(MyCatalogTest, Conforms) with
// ValuesIn(scenarios()).
std::vector<Scenario> scenarios();

}  // namespace onggi::catalog
