#include "base/file_descriptor.h"

#include <unistd.h>

namespace onggi {

void FileDescriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace onggi
