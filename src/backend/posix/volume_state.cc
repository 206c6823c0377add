#include "backend/posix/volume_state.h"

#include <functional>
#include <string_view>
#include <utility>

#include <sys/stat.h>

namespace onggi::backend {

Mutex& NameLocks::of(const Place& place) {
  struct stat s{};
  ::fstat(place.directory.get(), &s);  // cannot fail for what is open; zeros would do as well
  const std::size_t hash = std::hash<std::string_view>()(place.name) ^
                           (s.st_ino * 0x9e3779b97f4a7c15U) ^ (s.st_dev << 7U);
  return mutexes_[(hash ^ (hash >> 32U)) % mutexes_.size()];
}

NameLock::NameLock(NameLocks& locks, const Place& place) : first_(&locks.of(place)) {
  first_->lock();
}

NameLock::NameLock(NameLocks& locks, const Place& one, const Place& other)
    : first_(&locks.of(one)), second_(&locks.of(other)) {
  if (std::less<>()(second_, first_)) std::swap(first_, second_);  // one order for all
  if (second_ == first_) second_ = nullptr;
  first_->lock();
  if (second_ != nullptr) second_->lock();
}

NameLock::~NameLock() {
  if (second_ != nullptr) second_->unlock();
  first_->unlock();
}

}  // namespace onggi::backend
