#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace onggi {

void check_failed(std::string_view expression, std::string_view file, int line) {
  std::fprintf(stderr, "CHECK failed at %.*s:%d: %.*s\n", static_cast<int>(file.size()),
               file.data(), line, static_cast<int>(expression.size()), expression.data());
  std::abort();
}

}  // namespace onggi
