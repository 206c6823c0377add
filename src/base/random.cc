#include "base/random.h"

#include <array>
#include <cerrno>
#include <vector>

#include <sys/random.h>

#include "base/check.h"
#include "base/encoding.h"

namespace onggi {

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got > 0);  // getrandom cannot fail otherwise once the pool is ready
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::string random_token(std::size_t bytes) {
  std::vector<std::byte> raw(bytes);
  fill_random(raw);
  return base64url_encode(raw);
}

}  // namespace onggi
