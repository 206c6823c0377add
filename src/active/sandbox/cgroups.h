#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "active/sandbox/order.h"
#include "base/result.h"

namespace onggi::active {

// The control groups of one worker: one directory in v2, one per controller in v1. Removed by the
// destructor, which wants them empty. One thread at a time.
class Cgroup {
 public:
  Cgroup(std::map<std::string, std::string> directories, int version)
      : directories_(std::move(directories)), version_(version) {}
  ~Cgroup();
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  // The files through which a process joins by writing "0".
  std::vector<std::string> procs_files() const;
  Status set_limits(const WorkerLimits& limits);
  // CPU time of all its processes, dead ones too; 0 where it is not counted.
  std::uint64_t cpu_us() const;
  // How often the kernel killed for memory in it.
  std::uint64_t memory_kills() const;

 private:
  Status write(const std::string& controller, const char* file, std::string_view text) const;
  std::string read(const std::string& controller, const char* file) const;

  const std::map<std::string, std::string> directories_;  // by controller
  const int version_;
};

// Where the broker makes the groups of its workers: below its own group, in v2 when memory and pids
// are delegated there, else in v1's hierarchies; nowhere when it may not.
class CgroupTree {
 public:
  // Never fails: without rights it has no controllers.
  CgroupTree();
  ~CgroupTree();
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  int version() const { return version_; }  // 0: none
  bool has(std::string_view controller) const;
  std::vector<std::string> controllers() const;

  Result<std::unique_ptr<Cgroup>> make(std::uint64_t child) const;

 private:
  bool set_up_v2();
  void set_up_v1();

  int version_ = 0;
  std::map<std::string, std::string> bases_;  // by controller
};

}  // namespace onggi::active
