#include "io/group_sync.h"

#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

namespace onggi::io {

Status GroupSync::sync(int fd) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return fail_errno("make durable");
  mutex_.lock();
  const auto found = groups_.try_emplace(FileId(s.st_dev, s.st_ino)).first;
  Group& group = found->second;
  ++group.callers;
  const std::uint64_t wanted = group.begun + 1;  // one under way may have begun too early
  while (group.ended < wanted) {
    if (group.running) {
      ended_.wait(mutex_);
      continue;
    }
    group.running = true;
    ++group.begun;
    mutex_.unlock();
    const int error = ::fsync(fd) == 0 ? 0 : errno;
    mutex_.lock();
    group.running = false;
    group.ended = group.begun;
    if (error != 0) {
      group.failed = group.begun;
      group.error = error;
    }
    ended_.notify_all();
  }
  // An error is told to all who waited, even when a later call went well: the kernel tells it once.
  const int error = group.failed >= wanted ? group.error : 0;
  if (--group.callers == 0) groups_.erase(found);
  mutex_.unlock();
  if (error != 0) return tl::unexpected(error_from_errno(error, "make durable"));
  return {};
}

}  // namespace onggi::io
