#include "active/sandbox/abilities.h"

#include <array>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "active/sandbox/landlock.h"
#include "active/sandbox/protocol.h"
#include "active/sandbox/walls.h"

namespace onggi::active {

namespace {

Status try_walls(const WallPlan& plan, std::uint32_t uid) {
  Walls walls(plan);
  RETURN_IF_ERROR(walls.prepare({}));
  WorkerOrder order;
  order.uid = plan.privileged ? uid : 0;
  WorkerDescriptors descriptors{.socket = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC)),
                                .out = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC)),
                                .err = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC)),
                                .arena = FileDescriptor(memfd_create("probe", MFD_CLOEXEC)),
                                .mounts = {}};
  return walls.enter(order, std::move(descriptors));
}

// In a child: in it a new pid namespace, in that a process that builds the walls.
Status try_in_child(std::uint32_t uid, int report) {
  if (geteuid() != 0) RETURN_IF_ERROR(gain_rights());
  ASSIGN_OR_RETURN(const WallPlan plan, make_wall_plan({}));
  if (unshare(CLONE_NEWPID) != 0) return fail_errno("unshare pid namespace");
  const pid_t pid = fork();
  if (pid < 0) return fail_errno("fork in a pid namespace");
  if (pid == 0) {
    const Status status = try_walls(plan, uid);
    if (!status) {
      const std::string& text = status.error().message();
      static_cast<void>(write(report, text.data(), text.size()));
    }
    _exit(status ? 0 : 1);
  }
  int wait_status = 0;
  waitpid(pid, &wait_status, 0);
  if (wait_status != 0) return fail(ErrorCode::internal, "");
  return {};
}

std::string probe_failure(std::uint32_t uid) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return "pipe";
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return "fork";
  if (pid == 0) {
    const Status status = try_in_child(uid, writer.get());
    if (!status) {
      const std::string& text = status.error().message();
      static_cast<void>(write(writer.get(), text.data(), text.size()));
    }
    _exit(status ? 0 : 1);
  }
  writer.reset();
  std::string text(4096, '\0');
  const ssize_t size = read(reader.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  int wait_status = 0;
  waitpid(pid, &wait_status, 0);
  if (wait_status == 0) return {};
  return text.empty() ? fmt::format("the probe ended with {:#x}", wait_status) : text;
}

}  // namespace

SandboxAbilities probe_abilities(const CgroupTree& cgroups, std::uint32_t some_uid) {
  SandboxAbilities abilities;
  abilities.failure = probe_failure(some_uid);
  abilities.privileged = geteuid() == 0;
  abilities.landlock = static_cast<std::uint64_t>(landlock_abi());
  abilities.cgroup_version = static_cast<std::uint64_t>(cgroups.version());
  abilities.cgroup_controllers = cgroups.controllers();
  return abilities;
}

std::string encode(const SandboxAbilities& value) {
  FieldWriter writer;
  writer.text(value.failure).number(value.privileged ? 1 : 0).number(value.owner_maps ? 1 : 0);
  writer.number(value.landlock).number(value.cgroup_version).texts(value.cgroup_controllers);
  return writer.bytes();
}

Result<SandboxAbilities> decode_sandbox_abilities(std::string_view body) {
  FieldReader reader(body);
  SandboxAbilities value;
  value.failure = reader.text();
  value.privileged = reader.number() != 0;
  value.owner_maps = reader.number() != 0;
  value.landlock = reader.number();
  value.cgroup_version = reader.number();
  value.cgroup_controllers = reader.texts();
  if (!reader.ok()) return fail(ErrorCode::internal, "broker protocol: malformed abilities");
  return value;
}

}  // namespace onggi::active
