#include "daemon/data_lock.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace onggi::daemon {

namespace {

std::string holder_of(int fd) {
  std::array<char, 32> text{};
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : "unknown";
}

}  // namespace

Result<FileDescriptor> lock_data(const std::string& path) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path, error);
  if (error) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("data.path {} cannot be made: {}. Choose another with --data", path,
                            error.message()));
  }
  if (made && chmod(path.c_str(), 0700) != 0) return fail_errno(path);
  const std::string file = path + "/onggid.lock";
  FileDescriptor lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("data.path {} cannot be written to: {}. Choose another with --data",
                            path, std::generic_category().message(errno)));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(
        ErrorCode::conflict,
        fmt::format("another onggid (process {}) works on {}. Stop it, or give this one another "
                    "data.path with --data",
                    holder_of(lock.get()), path));
  }
  const std::string own = std::to_string(getpid());
  if (ftruncate(lock.get(), 0) != 0 || pwrite(lock.get(), own.data(), own.size(), 0) < 0) {
    return fail_errno(file);
  }
  return lock;
}

}  // namespace onggi::daemon
