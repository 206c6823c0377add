#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <generated/api/types.h>

#include "api/native/conditions.h"
#include "api/native/json.h"
#include "base/check.h"

// JSON bodies into every struct that a request can carry, and the headers of conditional requests.
// What was read must be written back as JSON that reads the same.
namespace {

using namespace onggi;       // NOLINT(google-build-using-namespace): a program of its own
using namespace onggi::api;  // NOLINT(google-build-using-namespace)

template <typename T>
void read_as(const boost::json::value& value) {
  T out;
  if (const Status status = read(value, "", out); !status) {
    CHECK(status.error().code() == ErrorCode::invalid_argument);
    CHECK(status.error().message().find('/') != std::string::npos);
  }
}

void try_body(std::string_view text) {
  const Result<boost::json::value> value = parse_json(text);
  if (!value) return;
  read_as<TenantCreate>(*value);
  read_as<TokenCreate>(*value);
  read_as<VolumeCreate>(*value);
  read_as<VFolderCreate>(*value);
  read_as<VFolderRename>(*value);
  read_as<ShareGrant>(*value);
  read_as<Move>(*value);
  read_as<TransferTokenCreate>(*value);
}

void try_text(std::string_view text) {
  std::string written;
  write(written, text);
  // Any bytes make a string that ends where it should; that they are UTF-8 is checked elsewhere.
  CHECK(written.size() >= text.size() + 2);
  CHECK(written.back() == '"');
}

void try_headers(std::string_view text) {
  http::Headers headers;
  for (const char* name : {"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since"}) {
    headers.set(name, std::string(text));
  }
  backend::FileInfo info;
  info.size_bytes = text.size();
  info.etag = "e";
  const RangeChoice choice = choose_range(headers, info);
  if (choice.kind == RangeKind::part) {
    CHECK(choice.range.length > 0);
    CHECK(choice.range.first + choice.range.length <= info.size_bytes);
  }
  static_cast<void>(check_read(headers, info));
  static_cast<void>(write_conditions(headers, [&] { return Result<backend::FileInfo>(info); }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_body(text);
  try_text(text);
  try_headers(text);
  return 0;
}
