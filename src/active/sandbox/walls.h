#pragma once

#include <string>
#include <vector>

#include <linux/filter.h>

#include "active/sandbox/order.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace onggi::active {

// What a zygote knows before it forks; made once.
struct WallPlan {
  std::vector<std::string> binds;  // paths of the host that workers may read
  std::vector<sock_filter> filter;
  bool privileged = true;  // root of the host; else everything happens in a user namespace
};

// The plan for workers that read `binds` besides the system's libraries.
Result<WallPlan> make_wall_plan(std::vector<std::string> binds);

// For a zygote without root: enters a user namespace in which it has the rights to build walls.
// Call before the first fork, with one thread.
Status gain_rights();

// The walls around a worker, built in two steps so that the dear part is done before anyone waits.
// All of it happens in the forked child, which is pid 1 of its pid namespace.
class Walls {
 public:
  // `plan` outlives this.
  explicit Walls(const WallPlan& plan) : plan_(plan) {}

  // Joins the cgroups; own mount, net, ipc, uts and cgroup namespaces; own root.
  Status prepare(const std::vector<std::string>& cgroup_procs);

  // Mounts, identity, user namespace, descriptors, limits, Landlock, system calls: in the end only
  // what the order grants is left.
  Status enter(const WorkerOrder& order, WorkerDescriptors descriptors);

 private:
  Status attach(const WorkerOrder& order, const WorkerDescriptors& descriptors);
  Status become(std::uint32_t uid);

  const WallPlan& plan_;
  FileDescriptor proc_self_;  // of the host's /proc, for the user namespace's maps
};

}  // namespace onggi::active
