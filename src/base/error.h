#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace onggi {

// What went wrong, in the terms a caller can act on. Each code maps to exactly one HTTP status
// (api/status.cc) and one Python exception (onggi.errors); add a code only when some caller
// would behave differently because of it.
enum class ErrorCode {
  invalid_argument,
  unauthenticated,    // no token, or one that is unknown, expired or malformed
  permission_denied,  // known, but not allowed; never used where it would reveal that a thing
                      // exists
  not_found,          // absent, or not visible to the caller: the two look the same
  already_exists,
  conflict,          // the state does not allow it now: a wrong upload offset, a folder not empty
  condition_failed,  // an if-match or generation precondition did not hold
  too_large,         // over a limit that was set at start
  unsupported,       // the backend's capabilities do not include the operation
  resource_exhausted,
  storage_full,  // ENOSPC or EDQUOT
  unavailable,   // retrying later may succeed; the retry layer retries only this one
  deadline_exceeded,
  cancelled,   // the caller went away
  corruption,  // bytes failed their checksum; never retried, always alarmed
  internal,
};

// The code's name in JSON, logs and metrics: "not_found".
std::string_view to_string(ErrorCode code);

// An error and the story of how it reached here. Immutable but for with(), which each layer may
// call once to put its own words in front.
class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  bool retryable() const { return code_ == ErrorCode::unavailable; }

  // Returns this error with "context: " before its message.
  Error with(std::string_view context) &&;

 private:
  ErrorCode code_;
  std::string message_;
};

// The error for `errno_value` of a system call: ENOENT is not_found, ENOSPC and EDQUOT are
// storage_full, EXDEV and ELOOP (what openat2 answers to an escape) are invalid_argument, …
Error error_from_errno(int errno_value, std::string_view context);

}  // namespace onggi
