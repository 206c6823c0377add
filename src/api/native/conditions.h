#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "http/message.h"

// Conditional requests and ranges (RFC 9110 §13, §14). Stateless.
namespace onggi::api {

// "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(UnixTime time);
std::optional<UnixTime> parse_http_date(std::string_view text);

// `etag` in quotes, as headers have it.
std::string quoted_etag(std::string_view etag);
// Whether a list of entity tags, or "*", names `etag`.
bool names_etag(std::string_view list, std::string_view etag);

enum class ReadCondition : std::uint8_t { proceed, not_modified, failed };
ReadCondition check_read(const http::Headers& headers, const backend::FileInfo& info);

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t length = 0;
};

enum class RangeKind : std::uint8_t { whole, part, unsatisfiable };

struct RangeChoice {
  RangeKind kind = RangeKind::whole;
  ByteRange range;
};

// Which bytes to send. Several ranges, malformed ones and those whose If-Range fails give the
// whole.
RangeChoice choose_range(const http::Headers& headers, const backend::FileInfo& info);

struct WriteConditions {
  std::optional<std::string> if_etag;
  bool if_absent = false;
};

// If-Match and If-None-Match of a write. `current` tells the version there is now; it is asked only
// where one must be picked from several. condition_failed when none fits.
Result<WriteConditions> write_conditions(const http::Headers& headers,
                                         const std::function<Result<backend::FileInfo>()>& current);

}  // namespace onggi::api
