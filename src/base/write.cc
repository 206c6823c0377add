#include "base/write.h"

#include <cerrno>
#include <string>

#include <unistd.h>

namespace onggi {
namespace {

// Calls `write` on what is left until nothing is.
template <typename Write>
Status repeat(std::span<const std::byte> bytes, std::string_view what, const Write& write) {
  while (!bytes.empty()) {
    const ssize_t written = write(bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(what);
    if (written == 0) {
      return fail(ErrorCode::storage_full, std::string(what) + ": the disk takes no more");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

Status write_all(int fd, std::span<const std::byte> bytes, std::string_view what) {
  return repeat(bytes, what, [fd](std::span<const std::byte> rest) {
    return ::write(fd, rest.data(), rest.size());
  });
}

Status write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                    std::string_view what) {
  const std::uint64_t end = offset + bytes.size();
  return repeat(bytes, what, [fd, end](std::span<const std::byte> rest) {
    return ::pwrite(fd, rest.data(), rest.size(), static_cast<off_t>(end - rest.size()));
  });
}

}  // namespace onggi
