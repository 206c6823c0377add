#include <map>
#include <string>
#include <vector>

#include "active/task_service.h"

namespace onggi::active {

std::vector<ProfileOptions> default_profiles(const std::string& python,
                                             const std::string& python_path) {
  std::vector<ProfileOptions> profiles = {{.name = "native", .argv = {}, .environment = {}}};
  if (python.empty()) return profiles;
  // A zygote must have one thread when it forks, and its math libraries must not make more later.
  std::map<std::string, std::string> environment = {
      {"PATH", "/usr/local/bin:/usr/bin:/bin"},
      {"HOME", "/tmp"},
      {"LANG", "C.UTF-8"},
      {"OMP_NUM_THREADS", "1"},
      {"MKL_NUM_THREADS", "1"},
      {"OPENBLAS_NUM_THREADS", "1"},
      {"NUMEXPR_NUM_THREADS", "1"},
      {"PYTHONDONTWRITEBYTECODE", "1"},
      {"PYTHONUNBUFFERED", "1"},
  };
  if (!python_path.empty()) environment["PYTHONPATH"] = python_path;
  for (const char* name : {"numpy", "torch"}) {
    profiles.push_back({.name = name,
                        .argv = {python, "-m", "onggi.worker.zygote", "--profile", name},
                        .environment = environment});
  }
  return profiles;
}

}  // namespace onggi::active
