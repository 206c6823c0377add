#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "vfolder/tar.h"

namespace {

// Checks what the reader promises its handler.
class Checker final : public onggi::vfolder::TarHandler {
 public:
  onggi::Status directory(const onggi::backend::RelPath& path) override {
    CHECK(!in_file_ && !path.is_root());
    return {};
  }

  onggi::Status begin_file(const onggi::backend::RelPath& path, std::uint64_t size) override {
    CHECK(!in_file_ && !path.is_root());
    CHECK(path.text().find("..") == std::string::npos ||
          onggi::backend::RelPath::parse(path.text()));
    in_file_ = true;
    left_ = size;
    return {};
  }

  onggi::Status data(std::span<const std::byte> bytes) override {
    CHECK(in_file_ && bytes.size() <= left_);
    left_ -= bytes.size();
    return {};
  }

  onggi::Status end_file() override {
    CHECK(in_file_ && left_ == 0);
    in_file_ = false;
    return {};
  }

 private:
  bool in_file_ = false;
  std::uint64_t left_ = 0;
};

}  // namespace

// The first byte chooses the size of the pieces in which the rest arrives.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = std::size_t{data[0]} * 3 + 1;
  auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  Checker checker;
  onggi::vfolder::TarReader reader(checker);
  while (!bytes.empty()) {
    const auto part = bytes.first(bytes.size() < step ? bytes.size() : step);
    if (!reader.feed(part)) return 0;
    bytes = bytes.subspan(part.size());
  }
  static_cast<void>(reader.finish());
  return 0;
}
