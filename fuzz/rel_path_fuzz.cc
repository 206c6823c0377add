#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "backend/rel_path.h"
#include "base/check.h"
#include "base/encoding.h"

// Whatever passes the door keeps every promise of RelPath, and passes it again unchanged.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using onggi::backend::RelPath;
  const std::string text(data, data + size);
  const auto path = RelPath::parse(text);
  if (!path) {
    CHECK(!path.error().message().empty());
    return 0;
  }
  const std::string& clean = path->text();
  CHECK(clean.size() <= 4096);
  CHECK(clean == text || clean + '/' == text);
  CHECK(onggi::is_utf8(clean));
  CHECK(clean.find('\0') == std::string::npos);
  CHECK(clean != ".upload" && !clean.starts_with(".upload/"));
  CHECK(RelPath::parse(clean)->text() == clean);
  RelPath above = *path;
  for (; !above.is_root(); above = above.parent()) {
    const std::string_view name = above.name();
    CHECK(!name.empty() && name.size() <= 255 && name != "." && name != "..");
    CHECK(name.find('/') == std::string_view::npos);
    CHECK(above.parent().join(name) == above);
  }
  return 0;
}
