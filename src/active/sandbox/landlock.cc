#include "active/sandbox/landlock.h"

#include <cstdint>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace onggi::active {

namespace {

// The distribution's header is older than the kernels we run on, so the ABI is written out here
// (include/uapi/linux/landlock.h).
struct RulesetAttribute {
  std::uint64_t handled_access_fs = 0;
  std::uint64_t handled_access_net = 0;
  std::uint64_t scoped = 0;
};

struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed_access = 0;
  std::int32_t parent_fd = -1;
};

constexpr std::uint32_t kVersionFlag = 1;
constexpr int kRulePathBeneath = 1;

constexpr std::uint64_t kExecute = 1 << 0;
constexpr std::uint64_t kWriteFile = 1 << 1;
constexpr std::uint64_t kReadFile = 1 << 2;
constexpr std::uint64_t kReadDir = 1 << 3;
constexpr std::uint64_t kMakeAll = 0x1ff0;  // remove_dir, remove_file, make_* up to make_sym
constexpr std::uint64_t kMakeDevices = (1 << 6) | (1 << 11);  // make_char, make_block
constexpr std::uint64_t kRefer = 1 << 13;                     // ABI 2
constexpr std::uint64_t kTruncate = 1 << 14;                  // ABI 3
constexpr std::uint64_t kIoctlDev = 1 << 15;                  // ABI 5
constexpr std::uint64_t kBindTcp = 1 << 0;                    // ABI 4
constexpr std::uint64_t kConnectTcp = 1 << 1;                 // ABI 4
constexpr std::uint64_t kScopeAbstractSockets = 1 << 0;       // ABI 6
constexpr std::uint64_t kScopeSignals = 1 << 1;               // ABI 6

RulesetAttribute ruleset_of(int abi) {
  RulesetAttribute attribute;
  attribute.handled_access_fs = kExecute | kWriteFile | kReadFile | kReadDir | kMakeAll;
  if (abi >= 2) attribute.handled_access_fs |= kRefer;
  if (abi >= 3) attribute.handled_access_fs |= kTruncate;
  if (abi >= 4) attribute.handled_access_net = kBindTcp | kConnectTcp;
  if (abi >= 5) attribute.handled_access_fs |= kIoctlDev;
  if (abi >= 6) attribute.scoped = kScopeAbstractSockets | kScopeSignals;
  return attribute;
}

std::size_t attribute_bytes(int abi) {
  if (abi >= 6) return sizeof(RulesetAttribute);
  if (abi >= 4) return 2 * sizeof(std::uint64_t);
  return sizeof(std::uint64_t);
}

Status allow(int ruleset, const std::string& path, std::uint64_t access) {
  const FileDescriptor file(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file) return fail_errno(fmt::format("landlock: open {}", path));
  const PathBeneath rule{.allowed_access = access, .parent_fd = file.get()};
  if (syscall(SYS_landlock_add_rule, ruleset, kRulePathBeneath, &rule, 0) != 0) {
    return fail_errno(fmt::format("landlock: rule for {}", path));
  }
  return {};
}

}  // namespace

int landlock_abi() {
  const auto version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersionFlag);
  return version > 0 ? static_cast<int>(version) : 0;
}

Status restrict_with_landlock(const std::vector<std::string>& writable,
                              const std::vector<std::string>& devices) {
  const int abi = landlock_abi();
  if (abi == 0) return {};
  const RulesetAttribute attribute = ruleset_of(abi);
  const FileDescriptor ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attribute, attribute_bytes(abi), 0)));
  if (!ruleset) return fail_errno("landlock: create ruleset");
  RETURN_IF_ERROR(allow(ruleset.get(), "/", kReadFile | kReadDir));
  const std::uint64_t all = attribute.handled_access_fs & ~(kExecute | kMakeDevices | kIoctlDev);
  for (const std::string& path : writable) RETURN_IF_ERROR(allow(ruleset.get(), path, all));
  for (const std::string& path : devices) {
    const std::uint64_t access = kReadFile | kWriteFile | (abi >= 3 ? kTruncate : 0);
    RETURN_IF_ERROR(allow(ruleset.get(), path, access));
  }
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    return fail_errno("landlock: restrict");
  }
  return {};
}

}  // namespace onggi::active
