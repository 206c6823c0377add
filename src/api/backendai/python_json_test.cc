#include "api/backendai/python_json.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace onggi::api::backendai {
namespace {

TEST(PythonJsonTest, HasPythonsSeparators) {
  EXPECT_EQ(python_json({{"volumes", {{{"name", "v"}, {"capabilities", {"vfolder"}}}}}}),
            R"({"volumes": [{"name": "v", "capabilities": ["vfolder"]}]})");
  EXPECT_EQ(python_json(boost::json::object()), "{}");
  EXPECT_EQ(python_json(boost::json::array()), "[]");
}

TEST(PythonJsonTest, ScalarsAreJson) {
  EXPECT_EQ(python_json(boost::json::array{nullptr, true, false, -1, 0.5, 0.0, 2.0}),
            "[null, true, false, -1, 0.5, 0.0, 2.0]");
}

// What python3 -c 'import json; print(json.dumps(…))' prints.
TEST(PythonJsonTest, EverythingBeyondAsciiIsEscaped) {
  EXPECT_EQ(python_json("\xEC\x98\xB9\xEA\xB8\xB0"), R"("\uc639\uae30")");
  EXPECT_EQ(python_json("\xF0\x9F\x8F\xBA"), R"("\ud83c\udffa")");
  EXPECT_EQ(python_json("\xC3\xA9"), R"("\u00e9")");
  EXPECT_EQ(python_json("a\"b\\c\n\r\t\b\f\x01/\x7F"),
            "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001/\x7F\"");
}

}  // namespace
}  // namespace onggi::api::backendai
