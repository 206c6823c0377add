#pragma once

#include <string>

#include <boost/json/value.hpp>

namespace onggi::api::backendai {

// JSON text as Python's json.dumps() writes it by default: ", " and ": " between things, and
// everything beyond ASCII escaped. Managers parse it like any other; proxies in front of them, and
// people's scripts, have seen no other.
std::string python_json(const boost::json::value& value);

}  // namespace onggi::api::backendai
