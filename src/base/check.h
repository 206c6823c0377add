#pragma once

#include <string_view>

namespace onggi {

// Prints where and what, then aborts.
[[noreturn]] void check_failed(std::string_view expression, std::string_view file, int line);

}  // namespace onggi

// CHECK what must be true whatever the world does; never what a peer sends.
#define CHECK(expression) \
  (static_cast<bool>(expression) ? void(0) : ::onggi::check_failed(#expression, __FILE__, __LINE__))

#if defined(ONGGI_CHECKS)
#define DCHECK(expression) CHECK(expression)
#else
#define DCHECK(expression) void(0)
#endif
