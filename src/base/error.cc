#include "base/error.h"

#include <cerrno>
#include <system_error>

#include <fmt/core.h>

namespace onggi {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::unauthenticated:
      return "unauthenticated";
    case ErrorCode::permission_denied:
      return "permission_denied";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::already_exists:
      return "already_exists";
    case ErrorCode::conflict:
      return "conflict";
    case ErrorCode::condition_failed:
      return "condition_failed";
    case ErrorCode::too_large:
      return "too_large";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::storage_full:
      return "storage_full";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::deadline_exceeded:
      return "deadline_exceeded";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::corruption:
      return "corruption";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

Error Error::with(std::string_view context) && {
  message_ = fmt::format("{}: {}", context, message_);
  return std::move(*this);
}

namespace {

ErrorCode code_from_errno(int value) {
  switch (value) {
    case ENOENT:
    case ENODEV:
      return ErrorCode::not_found;
    case EEXIST:
      return ErrorCode::already_exists;
    case EXDEV:
    case ELOOP:
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
      return ErrorCode::invalid_argument;
    case ENOTEMPTY:
    case ETXTBSY:
      return ErrorCode::conflict;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::storage_full;
    case EFBIG:
      return ErrorCode::too_large;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::permission_denied;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorCode::resource_exhausted;
    case EAGAIN:
    case EBUSY:
    case EINTR:
    case ESTALE:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return ErrorCode::unavailable;
    case ETIMEDOUT:
      return ErrorCode::deadline_exceeded;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::unsupported;
    default:
      return ErrorCode::internal;
  }
}

}  // namespace

Error error_from_errno(int errno_value, std::string_view context) {
  return {code_from_errno(errno_value),
          fmt::format("{}: {}", context, std::generic_category().message(errno_value))};
}

}  // namespace onggi
