#pragma once

#include <string>
#include <vector>

namespace onggi::cli {

enum class Health { good, info, worse, broken };  // broken: something does not work without it

// One thing that this machine has or lacks, in plain words.
struct Finding {
  std::string name;
  Health health = Health::good;
  std::string found;
  std::string cost;    // what the lack of it costs; empty when good
  std::string remedy;  // what to do; empty when nothing can be done
};

// Looks at this machine, changing nothing. `data_folder`: whose file system is looked at (its
// nearest existing parent).
std::vector<Finding> examine_machine(const std::string& data_folder);

}  // namespace onggi::cli
