#include "active/sandbox/cgroups.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace onggi::active {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "onggi-";
constexpr std::array<std::string_view, 4> kControllers = {"memory", "pids", "cpu", "cpuacct"};

std::string read_text(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(64 << 10, '\0');
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : -1;
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

Status write_text(const std::string& path, std::string_view text) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return fail_errno(fmt::format("open {}", path));
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail_errno(fmt::format("write {}", path));
  }
  return {};
}

// The number after `key` and a space at the start of some line.
std::uint64_t field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  std::string name;
  std::uint64_t value = 0;
  while (lines >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

struct CgroupMount {
  std::string point;
  std::string root;  // what of the hierarchy is seen at `point`
  std::string type;  // "cgroup" or "cgroup2"
  std::set<std::string, std::less<>> controllers;
};

std::vector<CgroupMount> cgroup_mounts() {
  std::vector<CgroupMount> mounts;
  std::ifstream file("/proc/self/mountinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream first(line.substr(0, dash));
    std::istringstream second(line.substr(dash + 3));
    CgroupMount mount;
    std::string skipped;
    std::string options;
    first >> skipped >> skipped >> skipped >> mount.root >> mount.point;
    second >> mount.type >> skipped >> options;
    if (!mount.type.starts_with("cgroup")) continue;
    std::istringstream names(options);
    for (std::string name; std::getline(names, name, ',');) mount.controllers.insert(name);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

// The own group's path in the hierarchy of `controller` ("" for v2).
std::string own_group(std::string_view controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) return line.substr(second + 1);
    for (std::string name; std::getline(names, name, ',');) {
      if (name == controller) return line.substr(second + 1);
    }
  }
  return {};
}

// The directory of the own group below the mount.
std::string directory_of(const CgroupMount& mount, std::string group) {
  if (mount.root != "/" && group.starts_with(mount.root)) group.erase(0, mount.root.size());
  std::string path = mount.point + group;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void remove_group(const std::string& directory) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) static_cast<void>(rmdir(it->path().c_str()));
  }
  static_cast<void>(rmdir(directory.c_str()));
}

// Groups that a broker left when it was killed itself.
void sweep(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with(kPrefix)) continue;
    int pid = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), pid);
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) remove_group(it->path());
  }
}

std::string base_below(const std::string& parent) {
  sweep(parent);
  std::string base = fmt::format("{}/{}{}", parent, kPrefix, getpid());
  if (mkdir(base.c_str(), 0755) != 0 && errno != EEXIST) base.clear();
  return base;
}

// v2 gives controllers only to groups without processes: ours go into a group beside the workers'.
bool delegate_v2(const std::string& own) {
  const std::string file = own + "/cgroup.subtree_control";
  constexpr std::string_view kWanted = "+memory +pids +cpu";
  if (write_text(file, kWanted)) return true;
  const std::string supervisor = own + "/onggi-supervisor";
  if (mkdir(supervisor.c_str(), 0755) != 0 && errno != EEXIST) return false;
  // Only when nobody but the daemon and we live here: others are not ours to move.
  std::istringstream pids(read_text(own + "/cgroup.procs"));
  std::vector<int> found;
  for (int pid = 0; pids >> pid;) found.push_back(pid);
  const bool only_ours =
      std::ranges::all_of(found, [](int pid) { return pid == getpid() || pid == getppid(); });
  if (!only_ours) return false;
  for (const int pid : found) {
    if (!write_text(supervisor + "/cgroup.procs", std::to_string(pid))) return false;
  }
  return write_text(file, kWanted).has_value();
}

}  // namespace

Cgroup::~Cgroup() {
  for (const auto& [controller, directory] : directories_) {
    static_cast<void>(rmdir(directory.c_str()));
  }
}

std::vector<std::string> Cgroup::procs_files() const {
  std::set<std::string> files;
  for (const auto& [controller, directory] : directories_)
    files.insert(directory + "/cgroup.procs");
  return {files.begin(), files.end()};
}

Status Cgroup::write(const std::string& controller, const char* file, std::string_view text) const {
  const auto found = directories_.find(controller);
  if (found == directories_.end()) return {};
  return write_text(fmt::format("{}/{}", found->second, file), text);
}

std::string Cgroup::read(const std::string& controller, const char* file) const {
  const auto found = directories_.find(controller);
  return found == directories_.end() ? std::string()
                                     : read_text(fmt::format("{}/{}", found->second, file));
}

Status Cgroup::set_limits(const WorkerLimits& limits) {
  const std::string memory = std::to_string(limits.memory_bytes);
  RETURN_IF_ERROR(write("pids", "pids.max", std::to_string(limits.processes)));
  if (version_ == 2) {
    RETURN_IF_ERROR(write("memory", "memory.max", memory));
    static_cast<void>(write("memory", "memory.swap.max", "0"));
    static_cast<void>(write("memory", "memory.oom.group", "1"));
    static_cast<void>(write("cpu", "cpu.weight", "25"));
    return {};
  }
  RETURN_IF_ERROR(write("memory", "memory.limit_in_bytes", memory));
  // Not there when swap is not counted; fails harmlessly then.
  static_cast<void>(write("memory", "memory.memsw.limit_in_bytes", memory));
  static_cast<void>(write("cpu", "cpu.shares", "256"));
  return {};
}

std::uint64_t Cgroup::cpu_us() const {
  if (version_ == 2) return field(read("cpu", "cpu.stat"), "usage_usec");
  const std::string text = read("cpuacct", "cpuacct.usage");
  std::uint64_t nanoseconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), nanoseconds);
  return nanoseconds / 1000;
}

std::uint64_t Cgroup::memory_kills() const {
  return field(read("memory", version_ == 2 ? "memory.events" : "memory.oom_control"), "oom_kill");
}

CgroupTree::CgroupTree() {
  if (!set_up_v2()) set_up_v1();
}

CgroupTree::~CgroupTree() {
  for (const auto& [controller, base] : bases_) remove_group(base);
}

bool CgroupTree::set_up_v2() {
  for (const CgroupMount& mount : cgroup_mounts()) {
    if (mount.type != "cgroup2") continue;
    const std::string own = directory_of(mount, own_group(""));
    std::istringstream names(read_text(own + "/cgroup.controllers"));
    std::set<std::string> offered;
    for (std::string name; names >> name;) offered.insert(name);
    if (!offered.contains("memory") || !offered.contains("pids")) continue;
    if (!delegate_v2(own)) continue;
    const std::string base = base_below(own);
    if (base.empty() || !write_text(base + "/cgroup.subtree_control", "+memory +pids +cpu"))
      continue;
    version_ = 2;
    for (const char* controller : {"memory", "pids", "cpu"}) bases_[controller] = base;
    return true;
  }
  return false;
}

void CgroupTree::set_up_v1() {
  for (const CgroupMount& mount : cgroup_mounts()) {
    if (mount.type != "cgroup") continue;
    for (const std::string_view controller : kControllers) {
      if (!mount.controllers.contains(controller)) continue;
      const std::string base = base_below(directory_of(mount, own_group(controller)));
      if (!base.empty()) bases_[std::string(controller)] = base;
    }
  }
  if (!bases_.empty()) version_ = 1;
}

bool CgroupTree::has(std::string_view controller) const {
  return bases_.contains(std::string(controller));
}

std::vector<std::string> CgroupTree::controllers() const {
  std::vector<std::string> names;
  for (const auto& [controller, base] : bases_) names.push_back(controller);
  return names;
}

Result<std::unique_ptr<Cgroup>> CgroupTree::make(std::uint64_t child) const {
  std::map<std::string, std::string> directories;
  for (const auto& [controller, base] : bases_) {
    std::string directory = fmt::format("{}/w{}", base, child);
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail_errno(fmt::format("make {}", directory));
    }
    directories[controller] = std::move(directory);
  }
  return std::make_unique<Cgroup>(std::move(directories), version_);
}

}  // namespace onggi::active
