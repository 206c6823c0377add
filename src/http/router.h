#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/message.h"

namespace onggi::http {

using Handler = std::function<Response(Request&)>;
// For routes that take their body as it comes.
using IntakeHandler = std::function<Intake(Request&)>;

// Maps a method and a path pattern to a handler. Patterns are
// "/v1/vfolders/{vfolder}/files/{path*}": {name} matches one segment, {name*} the rest (which may
// be empty). Earlier routes win; a GET route answers HEAD where no other does. A path that exists
// under another method answers 405 with Allow; none answers 404. Built before the server starts,
// then immutable.
class Router {
 public:
  void handle(Method method, std::string_view pattern, Handler handler);
  void take(Method method, std::string_view pattern, IntakeHandler handler);

  struct Route {
    Method method;
    std::string pattern;  // also the metrics' route label
    std::vector<std::string> segments;
    Handler handler;  // one of the two
    IntakeHandler intake;
  };
  // The route, with `request.params` filled; not_found, or unsupported with the allowed methods in
  // the message when only the method is wrong, or invalid_argument when a segment does not decode.
  Result<const Route*> match(Request& request) const;

  const std::vector<std::unique_ptr<Route>>& routes() const { return routes_; }

 private:
  std::vector<std::unique_ptr<Route>> routes_;
};

// Problem details (RFC 9457): {"type","title","status","detail","code","request_id"}.
Response problem(int status, std::string_view code, std::string_view detail,
                 std::string_view request_id);

std::string_view to_string(Method method);
std::string_view reason_phrase(int status);

}  // namespace onggi::http
