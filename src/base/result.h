#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#include "base/error.h"

namespace onggi {

// A T, or why there is none. The one place that names the library behind it: when the compiler
// brings std::expected, only this line changes.
template <typename T>
using Result = tl::expected<T, Error>;

using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected(Error(code, std::move(message)));
}

// For the line after a failed system call: `return fail_errno("open x")` reads errno.
inline tl::unexpected<Error> fail_errno(std::string_view context) {
  return tl::unexpected(error_from_errno(errno, context));
}

}  // namespace onggi

// Returns from the calling function if `expr` (a Status or Result) holds an error.
#define RETURN_IF_ERROR(expr)                              \
  do {                                                     \
    if (auto status_ = (expr); !status_) {                 \
      return ::tl::unexpected(std::move(status_).error()); \
    }                                                      \
  } while (false)

// Declares `decl` from the value of `expr`, or returns its error.
#define ASSIGN_OR_RETURN(decl, expr) \
  ASSIGN_OR_RETURN_IMPL_(ONGGI_CONCAT_(result_, __LINE__), decl, expr)
#define ASSIGN_OR_RETURN_IMPL_(tmp, decl, expr)              \
  auto tmp = (expr);                                         \
  if (!tmp) return ::tl::unexpected(std::move(tmp).error()); \
  decl = *std::move(tmp)
#define ONGGI_CONCAT_(a, b) ONGGI_CONCAT_IMPL_(a, b)
#define ONGGI_CONCAT_IMPL_(a, b) a##b
