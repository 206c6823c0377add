#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "api/backendai/identifiers.h"
#include "base/result.h"
#include "http/message.h"

namespace onggi::api::backendai {

// Reads the JSON object in a request's body, whatever the method, and gathers all that is wrong
// with it, in the words of the Python proxy. A getter of a key that is wrong answers an empty
// value; `refusal()`, asked once after all getters, says whether any was. One thread at a time.
//
//   Parameters parameters(request);
//   const std::string volume = parameters.text("volume");
//   if (auto refused = parameters.refusal()) return *std::move(refused);
class Parameters {
 public:
  explicit Parameters(const http::Request& request);
  explicit Parameters(boost::json::object object);

  std::string text(const char* key);
  std::string text_or(const char* key, std::string_view otherwise);
  std::optional<std::string> nullable_text(const char* key);  // the key itself is required
  std::optional<std::string> text_or_null(const char* key);   // it may be missing, too
  std::vector<std::string> texts(const char* key);
  void exactly(const char* key, std::string_view text);
  VFolderId vfolder(const char* key);
  QuotaScopeId quota_scope(const char* key);
  std::string path(const char* key);  // normal, relative
  std::vector<std::string> paths(const char* key);
  // A path or a list of at most `most` paths.
  std::vector<std::string> path_or_paths(const char* key, std::size_t most);
  bool flag(const char* key, bool otherwise);  // true, false, 0, 1, "yes", "no", …
  std::int64_t number(const char* key);        // also as text: "12"
  std::optional<std::int64_t> nullable_number(const char* key);  // also when the key is missing
  // {"limit_bytes": n}; none for null or, unless `required`, a missing key.
  std::optional<std::int64_t> quota(const char* key, bool required);
  void any(const char* key);  // is allowed, and ignored
  void allow_others() { others_allowed_ = true; }

  // {key: message}, without keys that are not known.
  const boost::json::object& wrong() const { return wrong_; }
  std::optional<http::Response> refusal();

 private:
  const boost::json::value* find(const char* key, bool required);
  void mark(const char* key, std::string_view what);
  void mark_others();
  template <typename T>
  T value_or_mark(const char* key, Result<T> value);
  std::vector<std::string> path_list(const char* key, const boost::json::array& items);

  std::optional<http::Response> broken_;  // no JSON object at all
  boost::json::object object_;
  boost::json::object wrong_;
  std::vector<std::string_view> known_;
  bool others_allowed_ = false;
};

}  // namespace onggi::api::backendai
