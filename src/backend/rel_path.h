#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace onggi::backend {

// A path below a vfolder, checked at the door: the only form in which a path reaches a backend.
// Never absolute, no empty, "." or ".." segment, no NUL or control character, valid UTF-8, each
// segment at most 255 bytes, the whole at most 4,096; the empty path is the vfolder itself.
// The name ".upload" at the top is reserved.
class RelPath {
 public:
  RelPath() = default;  // the vfolder itself
  // invalid_argument with a sentence that names the offence. One trailing '/' is allowed.
  static Result<RelPath> parse(std::string_view text);

  const std::string& text() const { return text_; }
  bool is_root() const { return text_.empty(); }
  RelPath parent() const;
  std::string_view name() const;
  RelPath join(std::string_view valid_name) const;

  auto operator<=>(const RelPath&) const = default;

 private:
  explicit RelPath(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace onggi::backend
