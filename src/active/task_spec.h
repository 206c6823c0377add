#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "active/task_service.h"
#include "base/result.h"
#include "base/uuid.h"

namespace onggi::active {

struct TaskMount {
  Uuid vfolder;
  std::string path;  // absolute, normal: no "..", no double slash
};

// What a client asks for, checked.
struct TaskSpec {
  std::string profile;
  std::string entry;
  std::size_t workers = 1;
  std::vector<TaskMount> mounts;
  std::string cwd;
  TaskLimits limits;
  std::string start_fields;  // JSON object: what workers are told besides their index
};

struct SpecRules {
  std::size_t workers_max = 16;
  TaskLimits limits_default;
  TaskLimits limits_max;
};

// Reads a spec frame's JSON. invalid_argument names the field; unknown fields are refused, so that
// a misspelt limit is not a silent default. A limit above its maximum is too_large.
Result<TaskSpec> parse_task_spec(std::string_view text, const SpecRules& rules);

}  // namespace onggi::active
